package slot

import (
	"cmp"
	"slices"
	"time"
)

// A creation waits for memory, as an activation would wait in a queue of classic mode. A
// refusal is more expensive: if no other invoker has memory either, the scheduler counts the
// creation as in progress until its time is over, and the creation takes one of the
// namespace's places meanwhile (CreationJobManager.scala). Schedulers order nothing beyond the
// free memory in the invoker's health. The health counts idle slots as free although they are
// not paused yet.
const (
	// memoryWait is how long it waits. With its five retries, and 3.1 s between them, a
	// creation ends before its time, 20 s.
	memoryWait = 2500 * time.Millisecond
	// memoryPause is the interval at which a waiting slot asks for its container again. It is
	// also the idle time after which other containers may end to free memory: by then no
	// activation has waited for them.
	memoryPause = 100 * time.Millisecond
)

// shortage is a slot's wait for memory.
type shortage struct {
	until time.Duration // it is refused then; 0: it was not refused yet
	again time.Duration // when its container is asked for again; 0: it is asked for
}

// awaitMemory schedules another request for the container of a refused slot. It does so if the
// slot is its function's only one and other containers may end meanwhile, or if enough
// containers are ending. It reports whether the slot waits. A slot that a scheduler orders
// beside others of the function must not wait for a run to end, because it takes a place of
// the namespace while it waits.
func (t *Table) awaitMemory(now time.Duration, s *slot) bool {
	if s.until == 0 {
		s.until = now + memoryWait
	}
	others, only := false, true
	for _, o := range t.slots {
		only = only && (o == s || o.GPU || !sameFunction(o.Queue, s.Queue))
		others = others || o.claims()
	}
	if !others || now >= s.until || t.closed || s.aim == toRemove {
		return false
	}
	if enough := t.freeMemory(now, s); !only && !enough {
		return false
	}
	s.again = now + memoryPause
	return true
}

// claims reports whether a slot has a container in the memory of CPU functions.
func (s *slot) claims() bool { return s.acquired && !s.GPU }

// askAgain asks for the container of a slot that waited for memory.
func (t *Table) askAgain(now time.Duration, s *slot) {
	if s.again > 0 && now >= s.again {
		s.again = 0
		t.order(Order{Do: Acquire, Slot: s.id, Creation: s.Creation})
	}
}

// idle reports whether schedulers have had nothing for a slot's container for a while.
func (s *slot) idle(now time.Duration) bool {
	return s.claims() && s.state == open && s.runs == 0 && s.ack == nil && now-s.since >= memoryPause
}

// ends reports whether a slot's container is gone as soon as its fetches are answered.
func (s *slot) ends() bool {
	return s.claims() && s.state == leaving && s.aim == toRemove && s.runs == 0
}

// freeMemory ends idle slots of functions other than the refused one, longest idle first,
// until all waiting slots have memory. It reports whether they will have enough.
func (t *Table) freeMemory(now time.Duration, refused *slot) (enough bool) {
	lack := 0
	var idle []*slot
	for _, s := range t.slots {
		switch {
		case s.state == acquiring && s.until > 0: // it was refused
			lack += s.MemoryMB
		case s.ends():
			lack -= s.MemoryMB
		case s.idle(now) && !sameFunction(s.Queue, refused.Queue):
			idle = append(idle, s)
		}
	}
	slices.SortStableFunc(idle, func(a, b *slot) int { return cmp.Compare(a.since, b.since) })
	for _, s := range idle {
		if lack > 0 {
			lack -= s.MemoryMB
			t.retire(now, s)
			t.proceed(now, s)
		}
	}
	return lack <= 0
}
