package sched

import (
	"slices"
	"time"
)

// device is one device with its tokens.
//
//	free == max(0, tokens - reserved - in flight), and 0 when leaving
type device struct {
	index    int // the owner's
	tokens   int
	reserved int
	leaving  bool
	flights  []*invocation
	counted  int // of free, as the whole has it
	// openUntil is until when work beyond the window may run here.
	openUntil int64
}

func (d *device) free() int {
	if d.leaving {
		return 0
	}
	return max(0, d.tokens-d.reserved-len(d.flights))
}

func (d *device) hasFree() bool { return d.free() > 0 }

// AddDevice brings a device with its tokens D. A device that is leaving comes
// back with what is still in flight on it.
func (s *Scheduler) AddDevice(now time.Duration, index, tokens int) {
	s.clock(now)
	d, ok := s.device(index)
	if ok && !d.leaving {
		panic("sched: device added twice")
	}
	if !ok {
		d = &device{index: index}
		at, _ := s.find(index)
		s.devices = slices.Insert(s.devices, at, d)
	}
	d.tokens, d.reserved, d.leaving = s.allowed(tokens), 0, false
	s.changedDevices()
}

func (s *Scheduler) find(index int) (int, bool) {
	return slices.BinarySearchFunc(s.devices, index, func(d *device, index int) int { return d.index - index })
}

func (s *Scheduler) device(index int) (*device, bool) {
	if at, ok := s.find(index); ok {
		return s.devices[at], true
	}
	return nil, false
}

// present is a device that must be there; naming another is misuse.
func (s *Scheduler) present(index int) *device {
	d, ok := s.device(index)
	if !ok || d.leaving {
		panic("sched: no such device")
	}
	return d
}

// allowed is the D that the policy grants where the owner offers tokens.
func (s *Scheduler) allowed(tokens int) int { return min(max(tokens, 0), s.maxTokens) }

// RemoveDevice takes a device away. What is in flight there still ends with
// Done, Undo or Abandon; queued work stays queued.
func (s *Scheduler) RemoveDevice(now time.Duration, index int) {
	s.clock(now)
	d := s.present(index)
	d.leaving, d.reserved = true, 0
	s.recount(d)
	if len(d.flights) == 0 {
		s.dropDevice(d)
	}
	s.changedDevices()
}

func (s *Scheduler) dropDevice(d *device) {
	at, _ := s.find(d.index)
	s.devices = slices.Delete(s.devices, at, at+1)
}

// SetTokens changes a device's D. More in flight than D drains by itself.
func (s *Scheduler) SetTokens(now time.Duration, index, tokens int) {
	s.clock(now)
	s.present(index).tokens = s.allowed(tokens)
	s.changedTokens()
}

// Reserve takes a free token for work outside of any flow; false if the device
// has none.
func (s *Scheduler) Reserve(now time.Duration, index int) bool {
	s.clock(now)
	d := s.present(index)
	if d.free() == 0 {
		return false
	}
	d.reserved++
	s.recount(d)
	return true
}

// Release gives a reserved token back. Reservations end with their device, so
// releasing one of a device that went is not misuse.
func (s *Scheduler) Release(now time.Duration, index int) {
	s.clock(now)
	if d, ok := s.device(index); ok && d.reserved > 0 {
		d.reserved--
		s.recount(d)
		s.retryPassed()
	}
}

// changedDevices follows a device that came or went: every flow may start
// sooner or later than before.
func (s *Scheduler) changedDevices() {
	for _, f := range s.known() {
		if f.standing != out {
			s.setStale(f)
		}
	}
	s.changedTokens()
}

// changedTokens follows a change of D. Only going to a single token or from
// one changes the order of flows.
func (s *Scheduler) changedTokens() {
	single := s.tokens == 1
	s.tokens = 0
	for _, d := range s.devices {
		if !d.leaving {
			s.tokens += d.tokens
		}
		s.recount(d)
	}
	s.retryPassed()
	if single != (s.tokens == 1) {
		s.rankAll()
	}
}

// recount follows a change of a device's free tokens.
func (s *Scheduler) recount(d *device) {
	s.free += d.free() - d.counted
	d.counted = d.free()
}
