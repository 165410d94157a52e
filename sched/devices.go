package sched

import (
	"slices"
	"time"
)

// device is one device with its tokens.
//
//	free == max(0, tokens - in flight), and 0 when leaving
type device struct {
	index   int // the owner's
	tokens  int
	leaving bool
	flights []*invocation
	awaited map[*group]awaited // nil has what flows inside the window wait for; see await
	held    []held
}

func (d *device) free() int {
	if d.leaving {
		return 0
	}
	return max(0, d.tokens-len(d.flights))
}

func (d *device) hasFree() bool { return d.free() > 0 }

// findFree lists the devices with a free token.
func (s *Scheduler) findFree() {
	s.free = s.free[:0]
	for _, d := range s.devices {
		if d.hasFree() {
			s.free = append(s.free, d)
		}
	}
}

// AddDevice brings a device with its tokens D. A device that is leaving comes
// back with its runs in flight.
func (s *Scheduler) AddDevice(now time.Duration, index, tokens int) {
	s.clock(now)
	at, ok := s.find(index)
	if !ok {
		s.devices = slices.Insert(s.devices, at, &device{index: index, leaving: true, awaited: map[*group]awaited{}})
	}
	d := s.devices[at]
	if !d.leaving {
		panic("sched: device added twice")
	}
	d.tokens, d.leaving = max(tokens, 0), false
}

func (s *Scheduler) find(index int) (int, bool) {
	return slices.BinarySearchFunc(s.devices, index, func(d *device, index int) int { return d.index - index })
}

// present is a device that must be there; naming another is misuse.
func (s *Scheduler) present(index int) *device {
	at, ok := s.find(index)
	if !ok || s.devices[at].leaving {
		panic("sched: no such device")
	}
	return s.devices[at]
}

// RemoveDevice takes a device away. Runs in flight there still end with
// Done, Undo or Abandon; queued work stays queued.
func (s *Scheduler) RemoveDevice(now time.Duration, index int) {
	s.clock(now)
	s.present(index).leaving = true
}

// SetTokens changes a device's D. More in flight than D drains by itself.
func (s *Scheduler) SetTokens(now time.Duration, index, tokens int) {
	s.clock(now)
	s.present(index).tokens = max(tokens, 0)
}
