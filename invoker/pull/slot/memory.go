package slot

import (
	"cmp"
	"slices"
	"time"
)

// A creation for which there is no memory waits for some, as an activation would in a
// classic queue. A refusal costs more: where no other invoker has memory either, the
// scheduler keeps the creation as under way until its time is over, and with it one of
// the places of its namespace (CreationJobManager.scala).
const (
	// memoryWait is how long it waits. With all its retries a creation ends before its
	// time, 20 s.
	memoryWait = time.Second
	// memoryPause is how often its container is asked for meanwhile.
	memoryPause = 100 * time.Millisecond
)

// shortage is a slot's wait for memory.
type shortage struct {
	until time.Duration // it is refused then; 0: it was not refused yet
	again time.Duration // when its container is asked for again; 0: it is asked for
}

// awaitMemory has a refused slot ask again, where containers of others may end
// meanwhile. It reports whether the slot waits.
func (t *Table) awaitMemory(now time.Duration, s *slot) bool {
	if s.until == 0 {
		s.until = now + memoryWait
		t.freeMemory(now, s)
	}
	others := slices.ContainsFunc(t.slots, func(o *slot) bool { return o != s && o.acquired && !o.GPU })
	if !others || now >= s.until || t.closed || s.aim == toRemove {
		return false
	}
	s.again = now + memoryPause
	return true
}

// askAgain asks for the container of a slot that waited for memory.
func (t *Table) askAgain(now time.Duration, s *slot) {
	if s.again > 0 && now >= s.again {
		s.again = 0
		t.order(Order{Do: Acquire, Slot: s.id, Creation: s.Creation})
	}
}

// freeMemory ends slots of other functions for which their schedulers had nothing when
// they last asked, longest idle first, if that gives the memory.
func (t *Table) freeMemory(now time.Duration, s *slot) {
	idle := slices.DeleteFunc(slices.Clone(t.slots), func(o *slot) bool {
		return o.GPU || o.state != open || o.runs > 0 || o.ack != nil || sameFunction(o.Queue, s.Queue) || now-o.since < memoryWait
	})
	slices.SortStableFunc(idle, func(a, b *slot) int { return cmp.Compare(a.since, b.since) })
	lack := s.MemoryMB
	for i, o := range idle {
		if lack -= o.MemoryMB; lack <= 0 {
			for _, o := range idle[:i+1] {
				t.retire(now, o)
				t.proceed(now, o)
			}
			return
		}
	}
}
