package container

import "time"

// waiting is a Demand in the queue, linked in order of arrival and, beside
// that, among those of the same key.
type waiting struct {
	Demand
	arrived   time.Duration
	blocked   bool // it has been the head and waited for memory
	blockedAt time.Duration

	before, after       *waiting
	keyBefore, keyAfter *waiting
}

// queue is the run buffer: first in, first out, with the first of each key and
// any invocation by its id within reach.
type queue struct {
	front, back  *waiting
	byKey        map[string]*keyQueue
	byInvocation map[uint64]*waiting
	memoryMB     int
}

type keyQueue struct{ front, back *waiting }

func newQueue() queue {
	return queue{byKey: map[string]*keyQueue{}, byInvocation: map[uint64]*waiting{}}
}

func (q *queue) push(now time.Duration, d Demand) {
	w := &waiting{Demand: d, arrived: now, before: q.back}
	if q.back == nil {
		q.front = w
	} else {
		q.back.after = w
	}
	q.back = w
	k := q.byKey[d.Key]
	if k == nil {
		k = &keyQueue{}
		q.byKey[d.Key] = k
	}
	if k.back == nil {
		k.front = w
	} else {
		k.back.keyAfter, w.keyBefore = w, k.back
	}
	k.back = w
	q.byInvocation[d.Invocation] = w
	q.memoryMB += d.MemoryMB
}

// first gives the longest waiting invocation of a key, or nil.
func (q *queue) first(key string) *waiting {
	if k := q.byKey[key]; k != nil {
		return k.front
	}
	return nil
}

func (q *queue) cancel(invocation uint64) bool {
	w := q.byInvocation[invocation]
	if w == nil {
		return false
	}
	q.remove(w)
	return true
}

func (q *queue) remove(w *waiting) {
	if w.before == nil {
		q.front = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		q.back = w.before
	} else {
		w.after.before = w.before
	}
	k := q.byKey[w.Key]
	if w.keyBefore == nil {
		k.front = w.keyAfter
	} else {
		w.keyBefore.keyAfter = w.keyAfter
	}
	if w.keyAfter == nil {
		k.back = w.keyBefore
	} else {
		w.keyAfter.keyBefore = w.keyBefore
	}
	if k.front == nil {
		delete(q.byKey, w.Key)
	}
	delete(q.byInvocation, w.Invocation)
	q.memoryMB -= w.MemoryMB
}

func (q *queue) len() int { return len(q.byInvocation) }
