package sched

// batch drains the whole queue of the oldest invocation before another: what was
// queued when the batch began belongs to it, later arrivals do not, so that one busy
// function cannot keep the device for ever.
type batch struct{ noHooks }

func byBatch(_ *Scheduler, f *flow) (int64, int64) {
	if f.batch > 0 {
		return 0, 0
	}
	return 1, 0
}

func (batch) granted(_ *Scheduler, f *flow) Rule {
	if f.batch > 0 {
		f.batch--
		return RuleBatch
	}
	f.batch = f.queue.Len()
	return RuleOrder
}

func (batch) dropped(_ *Scheduler, f *flow) { f.batch = min(f.batch, f.queue.Len()) }

// undone counts the invocation into the batch again, if the batch still runs.
func (batch) undone(_ *Scheduler, f *flow) {
	if f.batch > 0 {
		f.batch++
	}
}
