package sched

// sticky is MQFQ-Sticky's order inside the window (paper, Algorithm 1): fewest
// in flight, then longest queue, then older head. The printed algorithm gets
// the first by a stable second sort; here it is one key.
type sticky struct{ plain }

func (sticky) window() bool { return true }

// key leaves what is in flight out when there is a single token: then nothing
// is in flight whenever a choice is made.
func (sticky) key(s *Scheduler, f *flow) (int32, int64) {
	k := int64(1)<<32 - int64(f.queue.n)
	if s.tokens != 1 {
		k += int64(f.inFlight) << 33
	}
	return 0, k
}
