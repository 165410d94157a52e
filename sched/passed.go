package sched

import "time"

// Flows that fit nowhere are asked about in vain. While they are few they keep
// their place in the order and every call of Next asks them again. When they
// are many they wait in a list, outside of the order, of which each call asks
// a few in turn, so that no call takes long and none is forgotten. A flow of
// which something changed leaves the list at once.

// askedAgain is how many flows of the list one call of Next asks.
const askedAgain = 4

// pace is how long Next rests when it did not come to the end of those that may
// run: a thousand times a second it goes on, and other events come in between.
const pace = int64(time.Millisecond)

// pass puts a flow that fits nowhere at the end of the list.
func (s *Scheduler) pass(f *flow) {
	s.order.remove(f)
	f.passed, f.before, f.after = true, s.passedTail, none
	if s.passedTail != none {
		s.flows.at(s.passedTail).after = f.slot
	} else {
		s.passedHead = f.slot
	}
	s.passedTail = f.slot
	s.passedN++
}

// unpass takes a flow out of the list.
func (s *Scheduler) unpass(f *flow) {
	if !f.passed {
		return
	}
	f.passed = false
	if f.before != none {
		s.flows.at(f.before).after = f.after
	} else {
		s.passedHead = f.after
	}
	if f.after != none {
		s.flows.at(f.after).before = f.before
	} else {
		s.passedTail = f.before
	}
	s.passedN--
	s.toAsk = min(s.toAsk, s.passedN)
}

// askPassed asks the first of the list again. Who fits by now comes back to its
// place in the order, who does not goes to the end.
func (s *Scheduler) askPassed() {
	for range min(askedAgain, max(1, maxLooks/max(1, len(s.devices))), s.passedN) {
		f := s.flows.at(s.passedHead)
		s.unpass(f)
		if _, _, fits := s.fit(f, false); fits {
			s.reorder(f)
		} else {
			s.pass(f)
		}
		s.toAsk = max(0, s.toAsk-1)
	}
}

// changedRoom follows an event by which any flow may fit that did not.
func (s *Scheduler) changedRoom() { s.toAsk, s.probed = s.passedN, 0 }
