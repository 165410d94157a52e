package sched

import (
	"cmp"
	"slices"
	"time"
)

// fit chooses the device of those allowed where the flow starts soonest; among
// equals the one with most tokens free, then the first. Flow, token and
// container are thus always of one device.
//
// Few devices differ for a flow. All others would start it alike, so of those
// the one with most tokens is asked first, and the first that fits is the best.
func (s *Scheduler) fit(f *flow, allowed func(*device) bool) (best *device, p Placement, ok bool) {
	near, elsewhere := s.nearby(f)
	most := s.mostFree()
	for _, i := range near {
		d, there := s.device(i)
		if !there || !allowed(d) {
			continue
		}
		if a := s.ask(f, d); a.Fits && (best == nil || sooner(a, d, p, best)) {
			if best, p = d, a; unbeaten(a, d, most) {
				break
			}
		}
	}
	if elsewhere.Fits && (best == nil || byStart(elsewhere, p) <= 0) {
		d, a := s.fitElsewhere(f, near, allowed)
		if d != nil && (best == nil || sooner(a, d, p, best)) {
			best, p = d, a
		}
	}
	if best == nil || s.shouldWait(f, p) {
		s.skipped++
		return nil, Placement{}, false
	}
	return best, p, true
}

// fitElsewhere is the device of most free tokens on which a flow fits, of those
// that are not near; nil for none.
func (s *Scheduler) fitElsewhere(f *flow, near []int, allowed func(*device) bool) (*device, Placement) {
	for free := s.mostFree(); free > 0; free-- {
		for _, d := range s.devices {
			if d.free() != free || !allowed(d) || slices.Contains(near, d.index) {
				continue
			}
			if a := s.ask(f, d); a.Fits {
				return d, a
			}
		}
	}
	return nil, Placement{}
}

// mostFree is the most free tokens that any device has.
func (s *Scheduler) mostFree() (most int) {
	for _, d := range s.devices {
		most = max(most, d.free())
	}
	return most
}

// unbeaten says that no later device is better for a flow than this one.
func unbeaten(p Placement, d *device, mostFree int) bool {
	return p.Setup == 0 && p.Start == GPUWarm && d.free() == mostFree
}

// nearby asks View on which devices a start of the flow differs, and what it is
// on the others. The list is valid until the next call.
func (s *Scheduler) nearby(f *flow) ([]int, Placement) {
	if s.view == nil {
		return nil, Placement{Fits: true}
	}
	near, elsewhere := s.view.Near(f.id, s.near[:0])
	s.near = near
	s.asked++
	elsewhere.Setup = time.Duration(clamped(elsewhere.Setup))
	return near, elsewhere
}

// ask asks View what a start of the flow on a device is.
func (s *Scheduler) ask(f *flow, d *device) Placement {
	if s.view == nil {
		return Placement{Fits: true}
	}
	s.asked++
	p := s.view.Placement(f.id, d.index)
	p.Setup = time.Duration(clamped(p.Setup))
	return p
}

// sooner orders two devices for a flow.
func sooner(a Placement, d *device, b Placement, than *device) bool {
	return cmp.Or(byStart(a, b), cmp.Compare(than.free(), d.free()), cmp.Compare(d.index, than.index)) < 0
}

func byStart(a, b Placement) int {
	return cmp.Or(cmp.Compare(a.Setup, b.Setup), cmp.Compare(a.Start, b.Start))
}

// leastSetup is the least setup of the flow on any device.
func (s *Scheduler) leastSetup(f *flow) int64 {
	near, elsewhere := s.nearby(f)
	least, others := limit, 0
	for _, d := range s.devices {
		if !d.leaving {
			others++
		}
	}
	for _, i := range near {
		d, there := s.device(i)
		if !there || d.leaving {
			continue
		}
		others--
		if least = min(least, s.ask(f, d).Setup); least == 0 {
			return 0
		}
	}
	if others > 0 {
		least = min(least, elsewhere.Setup)
	}
	return int64(least)
}

// soonest is the device with tokens where the flow starts soonest, whether it
// fits or not.
func (s *Scheduler) soonest(f *flow) (best *device) {
	near, elsewhere := s.nearby(f)
	most := s.mostFree()
	var p Placement
	for _, i := range near {
		d, there := s.device(i)
		if !there || d.leaving || d.tokens == 0 {
			continue
		}
		if a := s.ask(f, d); best == nil || sooner(a, d, p, best) {
			if best, p = d, a; unbeaten(a, d, most) {
				return best
			}
		}
	}
	for _, d := range s.devices {
		if d.leaving || d.tokens == 0 || best != nil && !sooner(elsewhere, d, p, best) || slices.Contains(near, d.index) {
			continue
		}
		best, p = d, elsewhere
	}
	return best
}

// setStale has View asked again about a flow before the next choice.
func (s *Scheduler) setStale(f *flow) {
	if !f.stale && s.rules.setup {
		f.stale = true
		s.stale = append(s.stale, f)
	}
}

// refresh asks View for the least setup of each stale flow on any device.
func (s *Scheduler) refresh() {
	for _, f := range s.stale {
		f.stale = false
		if f.standing == out {
			continue
		}
		if setup := s.leastSetup(f); setup != f.setup {
			f.setup = setup
			s.rank(f)
		}
	}
	clear(s.stale)
	s.stale = s.stale[:0]
}

// Touch says that View would answer differently for a flow now. What one flow
// gave up may make another fit.
func (s *Scheduler) Touch(now time.Duration, id FlowID) {
	s.clock(now)
	s.retryPassed()
	if f := s.flows[id]; f != nil {
		s.setStale(f)
		if f.passed != nil {
			s.rank(f)
		}
	}
}

// shouldWait says that a flow had better not start now, although it could: the
// containers it has serve its whole queue sooner than a new one starts.
//
// With m containers, the first of them free in r, the last of q queued invocations
// begins at about r + (q-1) x tau/m. A container that starts later than that
// helps none of them. One that starts sooner makes the sum of the waits less, so
// a hot function gets it.
//
// Expectations may be wrong, so a head waits at most as long as the start it
// avoids would take: then both choices cost about the same, and it goes.
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
	s.holdUntil = min(s.holdUntil, until)
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
	near, _ := s.nearby(f)
	for _, i := range near {
		d, there := s.device(i)
		if !there || d.leaving || d.free() > 0 || len(d.flights) == 0 {
			continue
		}
		a := s.ask(f, d)
		if a.Start > HostWarm || !a.Fits {
			continue
		}
		soonest = min(soonest, s.firstEnd(d.flights)+int64(a.Setup))
		many++
	}
	return soonest, many
}
