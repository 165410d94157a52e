package sched

import (
	"cmp"
	"time"
)

// fit chooses the device of those allowed where the flow fits and starts soonest;
// among equals the one with most tokens free, then the first. Flow, token and
// container are thus always of one device. s.crowded is where it would fit if less ran.
func (s *Scheduler) fit(f *flow, allowed func(*device) bool) (best *device, p Placement, ok bool) {
	at := s.placements(f)
	s.asked++
	s.crowded = s.crowded[:0]
	for _, d := range s.devices {
		if !allowed(d) || !f.class.devices.has(d) {
			continue
		}
		s.asked++
		switch a := at(d); {
		case !a.Fits && !a.Elsewhere:
			s.crowded = addDevice(s.crowded, d)
		case a.Fits && (best == nil || sooner(a, d, p, best)):
			best, p = d, a
		}
	}
	if best == nil || s.shouldWait(f, p) {
		return nil, Placement{}, false
	}
	return best, p, true
}

// soonest is the device with tokens where the flow starts soonest, whether it
// fits or not.
func (s *Scheduler) soonest(f *flow) (best *device) {
	var p Placement
	at := s.placements(f)
	for _, d := range s.devices {
		if d.leaving || d.tokens == 0 {
			continue
		}
		if a := at(d); best == nil || sooner(a, d, p, best) {
			best, p = d, a
		}
	}
	return best
}

// placements is what a start of the flow would be, by device.
func (s *Scheduler) placements(f *flow) func(*device) Placement {
	if s.view == nil {
		return func(*device) Placement { return Placement{Fits: true} }
	}
	at := s.view.Placements(f.id)
	return func(d *device) Placement {
		p := at(d.index)
		p.Setup = time.Duration(clamped(p.Setup))
		return p
	}
}

// sooner orders two devices for a flow.
func sooner(a Placement, d *device, b Placement, than *device) bool {
	return cmp.Or(
		cmp.Compare(a.Setup, b.Setup), cmp.Compare(a.Start, b.Start),
		cmp.Compare(than.free(), d.free()), cmp.Compare(d.index, than.index),
	) < 0
}

// Touch follows a change of a flow's placements. An id that is not known stands for
// memory that was given back: it may make any flow fit.
func (s *Scheduler) Touch(now time.Duration, id FlowID) {
	s.clock(now)
	s.somethingFreed()
	if f := s.flows[id]; f != nil {
		s.setStale(f)
		if f.misfit != nil {
			s.rank(f)
		}
	}
}

// shouldWait reports whether a flow that could start should wait instead: the
// containers it has serve its whole queue sooner than a new one starts.
//
// With m containers, the first of them free in r, the last of q queued invocations
// begins at about r + (q-1) x tau/m. A container that starts later than that
// helps none of them. One that starts sooner lowers the sum of the waits, so a
// flow with a long queue gets it.
//
// Expectations may be wrong, so a head waits at most as long as the start it
// avoids would take: then both choices cost about the same, and it starts.
func (s *Scheduler) shouldWait(f *flow, p Placement) bool {
	if p.Setup <= 0 || !s.worthWaiting(f, p) {
		return false
	}
	if !f.waiting {
		f.waiting, f.waitingSince = true, s.now
	}
	until := f.waitingSince + int64(p.Setup)
	if s.now >= until {
		return false
	}
	s.waitUntil = min(s.waitUntil, until)
	return true
}

func (s *Scheduler) worthWaiting(f *flow, p Placement) bool {
	soonest, many := int64(never), 0
	if s.cfg.Wait && p.Start >= Cold {
		soonest, many = s.firstEnd(f.flights), len(f.flights)
	}
	if s.cfg.Locality {
		at, n := s.nearIdle(f)
		soonest, many = min(soonest, at), many+n
	}
	if many == 0 {
		return false
	}
	behind := float64(f.queue.Len()-1) * float64(s.usual(f)) / float64(many)
	return float64(soonest)+behind < float64(p.Setup)
}

// firstEnd is the expected time until the first of some runs ends, 0 when it is
// late.
func (s *Scheduler) firstEnd(flights []*invocation) int64 {
	soonest := int64(never)
	for _, it := range flights {
		soonest = min(soonest, max(0, it.run.granted+it.run.setup+it.run.estimate-s.now))
	}
	return soonest
}

// nearIdle is when the flow is expected to start in an idle container of its
// own on a full device, token and start there included, and how many devices
// have one.
func (s *Scheduler) nearIdle(f *flow) (soonest int64, many int) {
	soonest = never
	at := s.placements(f)
	for _, d := range s.devices {
		if d.leaving || d.free() > 0 || len(d.flights) == 0 {
			continue
		}
		if p := at(d); p.Start <= HostWarm && p.Fits {
			soonest = min(soonest, s.firstEnd(d.flights)+int64(p.Setup))
			many++
		}
	}
	return soonest, many
}
