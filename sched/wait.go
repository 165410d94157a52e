package sched

import "github.com/gpuwhisk/gpuwhisk/gpu/start"

// waits says that a flow had better not start now, although it could: the
// containers it has serve its whole queue sooner than a new one starts.
//
// With m containers, the first of them free in r, the last of q queued items
// begins at about r + (q-1) x tau/m. A container that starts later than that
// helps none of them. One that starts sooner makes the sum of the waits less, so
// a hot function gets it.
//
// Expectations may be wrong, so a head waits at most as long as the start it
// avoids would take: then both choices cost about the same, and it goes.
func (s *Scheduler) waits(f *flow, facts Facts) bool {
	if facts.Setup <= 0 || !s.worthWaiting(f, facts) {
		return false
	}
	if !f.holding {
		f.holding, f.heldSince = true, s.now
	}
	until := f.heldSince + int64(facts.Setup)
	if s.now >= until {
		return false
	}
	s.holdUntil = min(s.holdUntil, until)
	return true
}

func (s *Scheduler) worthWaiting(f *flow, facts Facts) bool {
	sooner, many := int64(never), int64(0)
	if s.cfg.Wait && facts.Start >= start.Cold {
		sooner, many = s.ownBusy(f)
	}
	if s.cfg.Locality {
		at, n := s.nearIdle(f)
		sooner, many = min(sooner, at), many+n
	}
	if many == 0 {
		return false
	}
	behind := float64(f.queue.n-1) * float64(s.usual(f)) / float64(many)
	return float64(sooner)+behind < float64(facts.Setup)
}

// ownBusy is when the first of the flow's items in flight is expected to end,
// and how many they are.
func (s *Scheduler) ownBusy(f *flow) (sooner, many int64) {
	sooner = never
	for k := f.flying; k != none; k = s.items.flights[k].after {
		sooner = min(sooner, s.left(&s.items.flights[k]))
		many++
	}
	return sooner, many
}

// left is the expected time until a flight ends, 0 when it is late.
func (s *Scheduler) left(fl *flight) int64 {
	return max(0, fl.granted+fl.setup+fl.estimate-s.now)
}

// nearIdle is when the flow is expected to start in an idle container of its
// own on a full device, token and start there included, and how many devices
// have one.
func (s *Scheduler) nearIdle(f *flow) (sooner, many int64) {
	sooner = never
	near, _ := s.nearby(f)
	for _, i := range near {
		d, there := s.device(i)
		if !there || d.leaving || d.free() > 0 || d.items.n == 0 {
			continue
		}
		a := s.look(f, d)
		if a.Start > start.HostWarm || !a.Fits {
			continue
		}
		token := int64(never)
		for i := d.items.head; i != none; i = s.items.all[i].next {
			token = min(token, s.left(s.items.flightOf(i)))
		}
		sooner = min(sooner, token+int64(a.Setup))
		many++
	}
	return sooner, many
}
