package sched

import "time"

// Deadline says when Tick would change something; false for never.
func (s *Scheduler) Deadline() (time.Duration, bool) {
	at := min(s.holdUntil, s.askAt, s.expiring())
	if s.inactive.len() > 0 {
		at = min(at, s.inactive.top().k1)
	}
	return time.Duration(at), at != never
}

// Tick lets time pass: empty flows whose TTL is over become inactive, flows
// inactive for long are forgotten, and a wait that is over ends, or a rest of
// Next, so that it is worth a call.
func (s *Scheduler) Tick(now time.Duration) {
	t := s.clock(now)
	for s.expiring() <= t {
		e := s.expiry.top()
		f := s.flows.at(e.slot())
		s.expiry.remove(e.slot())
		f.rest, f.when = expired, e.k1+int64(s.cfg.KeepInactive)
		s.inactive.push(e.slot(), f.when, f.serial)
		s.mark(f)
	}
	for s.inactive.len() > 0 && s.inactive.top().k1 <= t {
		s.forget(s.flows.at(s.inactive.top().slot()))
	}
	if s.holdUntil <= t {
		s.holdUntil = never
	}
	if s.askAt <= t {
		s.askAt = never
	}
}
