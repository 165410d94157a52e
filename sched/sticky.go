package sched

// sticky is MQFQ-Sticky's order inside the window (paper, Algorithm 1): fewest
// in flight, then longest queue, then older head. The printed algorithm gets
// the first by a stable second sort; here it is one key.
type sticky struct{ plain }

func (sticky) window() bool { return true }
func (sticky) facts() bool  { return true }

// first is who is overdue, for the printed order leaves the shortest queue last
// however long it waits.
func (sticky) first(s *Scheduler, now int64) (*flow, bool) {
	if f, ok := s.overdue(now); ok {
		return f, true
	}
	return plain{}.first(s, now)
}

func (sticky) granted(s *Scheduler, f *flow) Rule { return s.byLag(f) }

// key leaves what is in flight out when there is a single token: then nothing
// is in flight whenever a choice is made.
func (sticky) key(s *Scheduler, f *flow) (int8, int64) {
	k := int64(1)<<32 - int64(f.queue.n)
	if s.tokens != 1 {
		k += int64(f.inFlight) << 33
	}
	return 0, k
}
