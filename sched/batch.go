package sched

// batch drains the whole queue that holds the oldest item before it looks at
// another: what was queued when the batch began belongs to it, later arrivals
// do not, so that one busy function cannot hold the device for ever.
type batch struct{ plain }

func (batch) key(_ *Scheduler, f *flow) (int8, int64) {
	if f.batch > 0 {
		return 0, 0
	}
	return 0, 1
}

func (batch) granted(_ *Scheduler, f *flow) Rule {
	if f.batch > 0 {
		f.batch--
		return RuleBatch
	}
	f.batch = f.queue.n
	return RuleOrder
}

func (batch) dropped(_ *Scheduler, f *flow) { f.batch = min(f.batch, f.queue.n) }

// undone gives the place in the batch back, if the batch still runs.
func (batch) undone(_ *Scheduler, f *flow) {
	if f.batch > 0 {
		f.batch++
	}
}
