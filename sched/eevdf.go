package sched

// eevdf takes the earliest deadline: arrival plus expected time, the cold start
// included when no container of the flow is idle.
type eevdf struct{ plain }

func (eevdf) facts() bool { return true }

func (eevdf) key(s *Scheduler, f *flow) (int8, int64) {
	return 0, f.when + f.setup + s.expected(f)
}
