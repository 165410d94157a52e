package sched

// waits says that a flow had better not start now, although it could: a
// container of its own is expected free sooner than a new one starts.
//
// Expectations may be wrong, so a head waits at most as long as the start it
// avoids would take: then both choices cost about the same, and it goes.
func (s *Scheduler) waits(f *flow, facts Facts) bool {
	if facts.Setup <= 0 || !s.worthWaiting(f, facts) {
		return false
	}
	if !f.holding {
		f.holding, f.heldSince = true, s.now
	}
	until := f.heldSince + int64(facts.Setup)
	if s.now >= until {
		return false
	}
	s.holdUntil = min(s.holdUntil, until)
	return true
}

func (s *Scheduler) worthWaiting(f *flow, facts Facts) bool {
	if s.cfg.Wait && f.inFlight > 0 && facts.Start >= Cold &&
		s.remaining(f) < int64(facts.Setup) {
		return true
	}
	return s.cfg.Locality && s.nearIdle(f, facts)
}

// remaining is the expected time until an item in flight of f ends.
func (s *Scheduler) remaining(f *flow) int64 {
	least := int64(never)
	for _, d := range s.devices {
		for i := d.items.head; i != none; i = s.items.all[i].next {
			if s.items.all[i].flow == f.slot {
				least = min(least, s.left(i))
			}
		}
	}
	return least
}

// left is the expected time until an item in flight ends, 0 when it is late.
func (s *Scheduler) left(i int32) int64 {
	fl := s.items.flightOf(i)
	return max(0, fl.granted+fl.setup+fl.estimate-s.now)
}

// nearIdle says that an idle container of f waits on a full device, and that
// the token to come there with the start there is expected sooner than the
// start here.
func (s *Scheduler) nearIdle(f *flow, facts Facts) bool {
	for _, d := range s.devices {
		if d.leaving || d.free() > 0 || d.items.n == 0 {
			continue
		}
		a := s.look(f, d)
		if a.Start > HostWarm || !a.Fits {
			continue
		}
		token := int64(never)
		for i := d.items.head; i != none; i = s.items.all[i].next {
			token = min(token, s.left(i))
		}
		if token+int64(a.Setup) < int64(facts.Setup) {
			return true
		}
	}
	return false
}
