package sched

import "time"

// arrival learns the flow's inter-arrival time.
func (s *Scheduler) arrival(f *flow) {
	if f.lastSeen != never {
		gap := s.now - f.lastSeen
		f.iat = smooth(f.iat, gap, f.iat < 0)
		s.iat = smooth(s.iat, gap, !s.iatSeen)
		s.iatSeen = true
	}
	f.lastSeen = s.now
}

// smoothing is the weight of a new sample in the estimates of service and inter-arrival
// times, after the first.
const smoothing = 0.2

// smooth moves an average towards a sample; the first sample is the average.
func smooth(average, sample int64, first bool) int64 {
	if first {
		return sample
	}
	return average + int64(smoothing*float64(sample-average))
}

// ttl is how long the flow stays active once empty. Before an inter-arrival
// time is known it is T, the one time scale that the operator gave.
func (s *Scheduler) ttl(f *flow) int64 {
	iat, known := f.iat, f.iat >= 0
	if s.cfg.TTLGlobal {
		iat, known = s.iat, s.iatSeen
	}
	t := float64(s.cfg.MaxOverrun())
	if known {
		t = s.cfg.TTLAlpha * float64(iat)
	}
	return int64(min(max(t, float64(s.cfg.TTLMin)), float64(s.cfg.TTLMax)))
}

// startTTL follows an event after which a flow may be empty with nothing in flight.
func (s *Scheduler) startTTL(f *flow) {
	if len(f.queue) > 0 || len(f.flights) > 0 || f.byIdle.at > 0 {
		return
	}
	s.expiry.put(&f.byIdle, s.now+s.ttl(f))
}

// expire makes a flow inactive, as from a time.
func (s *Scheduler) expire(f *flow, at int64) {
	s.expiry.remove(&f.byIdle)
	f.expired = true
	s.inactive.put(&f.byIdle, at+int64(s.cfg.KeepInactive))
}

// stopTTL follows the return of an empty flow.
func (s *Scheduler) stopTTL(f *flow) {
	if f.expired {
		s.inactive.remove(&f.byIdle)
	} else {
		s.expiry.remove(&f.byIdle)
	}
	f.expired = false
}

// Deadline is when Tick would change something; false for never.
func (s *Scheduler) Deadline() (time.Duration, bool) {
	at := s.waitUntil
	for _, h := range []heap{s.expiry, s.inactive, s.pausing} {
		if len(h) > 0 {
			at = min(at, h.top().key)
		}
	}
	return time.Duration(at), at != never
}

// maxTicked is how many flows one Tick follows; for the others Deadline is due at once.
const maxTicked = 64

// Tick lets time pass: empty flows whose TTL is over become inactive, flows inactive for long
// are forgotten, and a wait ends, so that the next call of Next may grant. One call follows
// at most maxTicked flows, the earliest first.
func (s *Scheduler) Tick(now time.Duration) {
	s.clock(now)
	for range maxTicked {
		if !s.tickOne() {
			break
		}
	}
	if s.waitUntil <= s.now {
		s.waitUntil = never
	}
}

// tickOne follows one flow; false when none is due.
func (s *Scheduler) tickOne() bool {
	due := func(h heap) bool { return len(h) > 0 && h.top().key <= s.now }
	switch {
	case due(s.pausing):
		s.resume(s.pausing.top().of)
	case due(s.expiry):
		f := s.expiry.top().of
		s.expire(f, f.byIdle.key)
		s.setDirty(f)
	case due(s.inactive):
		s.forget(s.inactive.top().of)
	default:
		return false
	}
	return true
}
