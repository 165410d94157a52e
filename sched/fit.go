package sched

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/start"
)

// fit chooses the device with a free token where the flow starts soonest; among
// equals the one with most tokens free, then the first. Flow, token and
// container are thus always of one device. With open only devices that nothing
// inside the window can use are looked at.
//
// Few devices differ for a flow. All others would start it alike, so of those
// the one with most tokens is asked first, and the first that fits is the best.
func (s *Scheduler) fit(f *flow, open bool) (best *device, facts Facts, ok bool) {
	near, elsewhere := s.nearby(f)
	most := s.mostFree()
	for _, i := range near {
		d, there := s.device(i)
		if !there || d.free() == 0 || open && !s.isOpen(d) {
			continue
		}
		if a := s.look(f, d); a.Fits && (best == nil || sooner(a, d, facts, best)) {
			if best, facts = d, a; unbeaten(a, d, most) {
				break
			}
		}
	}
	if elsewhere.Fits && (best == nil || !dearer(elsewhere, facts)) {
		d, a := s.fitElsewhere(f, near, open)
		if d != nil && (best == nil || sooner(a, d, facts, best)) {
			best, facts = d, a
		}
	}
	if best == nil || s.waits(f, facts) {
		s.held++
		return nil, Facts{}, false
	}
	return best, facts, true
}

// fitElsewhere is the device of most free tokens on which a flow fits, of those
// that are not near; nil for none.
func (s *Scheduler) fitElsewhere(f *flow, near []int, open bool) (*device, Facts) {
	for free := s.mostFree(); free > 0; free-- {
		for _, d := range s.open {
			if d.free() != free || open && !s.isOpen(d) || slices.Contains(near, d.index) {
				continue
			}
			if a := s.look(f, d); a.Fits {
				return d, a
			}
		}
	}
	return nil, Facts{}
}

// mostFree is the most free tokens that any device has.
func (s *Scheduler) mostFree() (most int) {
	for _, d := range s.open {
		most = max(most, d.free())
	}
	return most
}

// unbeaten says that no later device is better for a flow than this one.
func unbeaten(a Facts, d *device, mostFree int) bool {
	return a.Setup == 0 && a.Start == start.GPUWarm && d.free() == mostFree
}

// nearby asks View on which devices a start of the flow differs, and what it is
// on the others. The list is valid until the next call.
func (s *Scheduler) nearby(f *flow) ([]int, Facts) {
	if s.view == nil {
		return nil, Facts{Fits: true}
	}
	near, elsewhere := s.view.Near(f.id, s.near[:0])
	s.near = near
	s.looked++
	return near, clamped(elsewhere)
}

func (s *Scheduler) look(f *flow, d *device) Facts {
	if s.view == nil {
		return Facts{Fits: true}
	}
	s.looked++
	return clamped(s.view.Facts(f.id, d.index))
}

// setup is that of the facts.
func (s *Scheduler) setup(f *flow, d *device) time.Duration {
	if s.alone == nil {
		return s.look(f, d).Setup
	}
	return min(max(s.alone.Setup(f.id, d.index), 0), limit)
}

func clamped(a Facts) Facts {
	a.Setup = min(max(a.Setup, 0), limit)
	return a
}

// sooner orders two devices for a flow.
func sooner(a Facts, d *device, b Facts, than *device) bool {
	order := cmp.Or(byStart(a, b), cmp.Compare(than.free(), d.free()), cmp.Compare(d.index, than.index))
	return order < 0
}

// dearer says that a start is later than another on whichever device.
func dearer(a, b Facts) bool { return byStart(a, b) > 0 }

func byStart(a, b Facts) int {
	return cmp.Or(cmp.Compare(a.Setup, b.Setup), cmp.Compare(a.Start, b.Start))
}

// leastSetup is the least setup of the flow on any device.
func (s *Scheduler) leastSetup(f *flow) int64 {
	near, elsewhere := s.nearby(f)
	least, others := limit, s.here
	for _, i := range near {
		d, there := s.device(i)
		if !there || d.leaving {
			continue
		}
		others--
		if least = min(least, s.setup(f, d)); least == 0 {
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
	var facts Facts
	for _, i := range near {
		d, there := s.device(i)
		if !there || d.leaving || d.tokens == 0 {
			continue
		}
		if a := s.look(f, d); best == nil || sooner(a, d, facts, best) {
			if best, facts = d, a; unbeaten(a, d, most) {
				return best
			}
		}
	}
	if best != nil && dearer(elsewhere, facts) {
		return best
	}
	if d := s.freest(near); d != nil && (best == nil || sooner(elsewhere, d, facts, best)) {
		best = d
	}
	return best
}

// freest is the device with most free tokens of those that are not near, or else
// the first with any tokens; nil for none.
func (s *Scheduler) freest(near []int) (most *device) {
	for _, d := range s.open {
		if (most == nil || d.free() > most.free()) && !slices.Contains(near, d.index) {
			most = d
		}
	}
	for i := 0; most == nil && i < len(s.devices); i++ {
		if d := s.devices[i]; !d.leaving && d.tokens > 0 && !slices.Contains(near, d.index) {
			most = d
		}
	}
	return most
}

// markStale has View asked again about a flow before the next choice.
func (s *Scheduler) markStale(f *flow) {
	if !f.stale && s.rules.facts() {
		f.stale = true
		s.stale = append(s.stale, f)
	}
}

// refresh asks View for the least setup of each stale flow on any device.
func (s *Scheduler) refresh() {
	for _, f := range s.stale {
		if !f.stale {
			continue
		}
		f.stale = false
		if f.standing == out {
			continue
		}
		if setup := s.leastSetup(f); setup != f.setup {
			f.setup = setup
			s.reorder(f)
		}
	}
	s.stale = s.stale[:0]
}

// Touch says that View would answer differently for a flow now. What one flow
// gave up may make another fit.
func (s *Scheduler) Touch(now time.Duration, id FlowID) {
	s.clock(now)
	s.changedRoom()
	if f := s.byID.find(id); f != nil {
		s.markStale(f)
		if f.passed {
			s.reorder(f)
		}
	}
}
