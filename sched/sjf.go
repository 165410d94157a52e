package sched

// sjf takes the shortest expected service.
type sjf struct{ plain }

func (sjf) key(s *Scheduler, f *flow) (int8, int64) { return 0, s.expected(f) }
