package sim

import "github.com/gpuwhisk/gpuwhisk/sched"

// batch drains the whole queue of the oldest invocation before another queue. Invocations
// that were queued when the batch began belong to the batch, later arrivals do not, so that
// one busy function cannot keep the device for ever.
//
// It has the newest invocation of each flow's last batch. An invocation of a batch that comes
// back belongs to the batch again.
type batch map[sched.Flow]int64

func newBatch() sched.Order {
	b := batch{}
	return sched.Order{Key: b.key, Granted: b.granted}
}

func (b batch) key(f sched.Flow) sched.Key {
	if b.has(f) {
		return sched.Key{}
	}
	return sched.Key{1}
}

// has reports whether the flow's oldest invocation belongs to its batch.
func (b batch) has(f sched.Flow) bool { return f.Oldest() <= b[f] }

func (b batch) granted(f sched.Flow) {
	if !b.has(f) {
		b[f] = f.Newest()
	}
}
