package sched

import "time"

// item is one invocation, queued or in flight. Items live in one slice without
// pointers, so that a long backlog costs the garbage collector nothing.
type item struct {
	id      uint64
	seq     int64 // order of Enqueue: the older head is the smaller seq
	arrival int64
	cost    int64 // the caller's expectation, 0 if none
	flow    int32 // slot
	prev    int32 // in its flow's queue, or among those in flight on its device
	next    int32

	// From the grant on.
	inFlight bool
	device   int32 // position key of the device
	granted  int64
	setup    int64 // as View expected it
	estimate int64 // what the charge was computed from
	basis    int64 // service that the charge stands for
	charge   int64 // to the flow
	above    int64 // to its namespace
}

const none int32 = -1

// list is a doubly linked list of items through prev and next.
type list struct {
	head, tail int32
	n          int
}

func emptyList() list { return list{none, none, 0} }

// items is the store of all items with their free slots.
type items struct {
	all  []item
	free []int32
	byID ids
}

func (s *items) add(it Item, seq int64, now time.Duration) int32 {
	if _, ok := s.byID.find(it.ID); ok {
		panic("sched: item enqueued twice")
	}
	var i int32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		i = int32(len(s.all))
		s.all = append(s.all, item{})
	}
	cost := min(max(it.Cost, 0), limit)
	s.all[i] = item{id: it.ID, seq: seq, arrival: int64(now), cost: int64(cost), prev: none, next: none}
	s.byID.put(it.ID, i)
	return i
}

func (s *items) release(i int32) {
	s.byID.drop(s.all[i].id)
	s.free = append(s.free, i)
}

// append puts item i at the end of l.
func (s *items) append(l *list, i int32) { s.insert(l, i, none) }

// insert puts item i before item at, or at the end when at is none.
func (s *items) insert(l *list, i, at int32) {
	before := l.tail
	if at != none {
		before = s.all[at].prev
		s.all[at].prev = i
	} else {
		l.tail = i
	}
	if before != none {
		s.all[before].next = i
	} else {
		l.head = i
	}
	s.all[i].prev, s.all[i].next = before, at
	l.n++
}

// unlink takes item i out of l.
func (s *items) unlink(l *list, i int32) {
	it := &s.all[i]
	if it.prev != none {
		s.all[it.prev].next = it.next
	} else {
		l.head = it.next
	}
	if it.next != none {
		s.all[it.next].prev = it.prev
	} else {
		l.tail = it.prev
	}
	it.prev, it.next = none, none
	l.n--
}

// putBack inserts item i where its age says. Only items that were granted and
// undone come back, so the place is among the first few.
func (s *items) putBack(l *list, i int32) {
	at := l.head
	for at != none && s.all[at].seq < s.all[i].seq {
		at = s.all[at].next
	}
	s.insert(l, i, at)
}
