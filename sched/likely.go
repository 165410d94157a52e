package sched

import "time"

// Likely names the flow that the policy's order puts first now, whether or not
// a token is free, and the device where it would start soonest. It changes
// nothing that a decision depends on.
func (s *Scheduler) Likely(now time.Duration) (FlowID, int, bool) {
	s.clock(now)
	if s.backlogged == 0 || s.tokens == 0 {
		return FlowID{}, 0, false
	}
	s.refresh()
	s.settled = false
	f, ok := s.rules.first(s, s.now)
	if !ok {
		return FlowID{}, 0, false
	}
	d := s.soonest(f)
	return f.id, d.index, true
}
