package container

import (
	"container/list"
	"iter"
	"time"
)

// fifo is a first-in first-out queue that elements can leave from anywhere.
type fifo[T any] struct{ list.List }

// first is the element that has waited longest, or the zero value.
func (q *fifo[T]) first() (v T) {
	if e := q.Front(); e != nil {
		v = e.Value.(T)
	}
	return v
}

// elements iterates over the elements in order. The current element may be removed during the
// iteration.
func (q *fifo[T]) elements() iter.Seq[T] {
	return func(yield func(T) bool) {
		for e := q.Front(); e != nil; {
			next := e.Next()
			if !yield(e.Value.(T)) {
				return
			}
			e = next
		}
	}
}

// waiting is a Demand in the queue.
type waiting struct {
	Demand
	blocked   bool // it has been the head and waited for memory
	blockedAt time.Duration

	element, keyElement *list.Element // in the queue, and in that of its key
}

// queue has the waiting demands in order of arrival, altogether and by their keys.
type queue struct {
	fifo[*waiting]
	byKey    map[string]*fifo[*waiting]
	memoryMB int
}

func newQueue() queue {
	return queue{byKey: map[string]*fifo[*waiting]{}}
}

func (q *queue) push(d Demand) {
	w := &waiting{Demand: d}
	k := q.byKey[d.Key]
	if k == nil {
		k = &fifo[*waiting]{}
		q.byKey[d.Key] = k
	}
	w.element, w.keyElement = q.PushBack(w), k.PushBack(w)
	q.memoryMB += d.MemoryMB
}

// firstOf gives the longest waiting invocation of a key, or nil.
func (q *queue) firstOf(key string) *waiting {
	if k := q.byKey[key]; k != nil {
		return k.first()
	}
	return nil
}

func (q *queue) remove(w *waiting) {
	k := q.byKey[w.Key]
	q.Remove(w.element)
	if k.Remove(w.keyElement); k.Len() == 0 {
		delete(q.byKey, w.Key)
	}
	q.memoryMB -= w.MemoryMB
}
