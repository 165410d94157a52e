package sched

// mqfq takes the eligible flow of least virtual time. The original multi-queue
// fair queueing leaves the choice inside the window open. With T = 0 and one
// token it is start-time fair queueing.
type mqfq struct{ plain }

func (mqfq) window() bool { return true }

// nested: virtual times of two namespaces' flows have nothing in common.
func (mqfq) nested() bool { return true }

func (mqfq) key(_ *Scheduler, f *flow) (int8, int64) { return 0, f.vt }
