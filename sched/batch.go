package sched

// batch drains the whole queue of the oldest invocation before another queue. Invocations
// that were queued when the batch began belong to the batch, later arrivals do not, so that
// one busy function cannot keep the device for ever.
type batch struct{ noHooks }

func byBatch(_ *Scheduler, f *flow) key {
	if f.batch > 0 {
		return key{}
	}
	return key{1}
}

func (batch) granted(_ *Scheduler, f *flow) Rule {
	if f.batch > 0 {
		f.batch--
		return RuleBatch
	}
	f.batch = f.queue.Len()
	return RuleNone
}

func (batch) dropped(_ *Scheduler, f *flow) { f.batch = min(f.batch, f.queue.Len()) }

// undone counts the invocation into the batch again, if the batch still runs.
func (batch) undone(_ *Scheduler, f *flow) {
	if f.batch > 0 {
		f.batch++
	}
}
