package sched

import "time"

// Misfits are flows that may run and fit on no device. While they are few they keep
// their position in the order and every call of Next tries them again. When they are
// many they wait in a list, outside of the order, of which each call tries a few, so
// that no call takes long and none is forgotten. A flow of which something changed
// leaves the list at once.

// maxTried is how many misfits of the order one call of Next tries, retriedMisfits how
// many of the list, and maxAsked for how many placements it asks in all, each flow
// counting as one more. The next call goes on behind them.
const (
	maxTried       = 16
	retriedMisfits = 4
	maxAsked       = 128
)

// pause is how long Next waits when it did not come to the end of those that may
// run: it goes on a thousand times a second, with other events in between.
const pause = int64(time.Millisecond)

// setMisfit puts a flow at the end of the list.
func (s *Scheduler) setMisfit(f *flow) {
	s.unrank(f)
	f.misfit = s.misfits.PushBack(f)
}

// unsetMisfit takes a flow out of the list.
func (s *Scheduler) unsetMisfit(f *flow) {
	if f.misfit == nil {
		return
	}
	s.misfits.Remove(f.misfit)
	f.misfit = nil
	s.untried = min(s.untried, s.misfits.Len())
}

// restore returns the misfits of this call to the order, unless they are so many that
// the next call is to go on behind them.
func (s *Scheduler) restore(few bool) {
	for few && s.misfits.Len() > 0 {
		s.rank(s.misfits.Front().Value.(*flow))
	}
}

// retryMisfits tries the first of the list again. One that fits by now returns to the
// order, the others move to the end of the list.
func (s *Scheduler) retryMisfits() {
	for range min(retriedMisfits, max(1, maxAsked/max(1, len(s.devices))), s.misfits.Len()) {
		f := s.misfits.Front().Value.(*flow)
		s.unsetMisfit(f)
		if _, _, fits := s.fit(f, (*device).hasFree); fits {
			s.rank(f)
		} else {
			s.setMisfit(f)
		}
		s.untried = max(0, s.untried-1)
	}
}

// somethingFreed follows an event by which any misfit may fit.
func (s *Scheduler) somethingFreed() { s.untried, s.probed = s.misfits.Len(), 0 }
