package sched

// item is one invocation, queued or in flight. Items live in one slice without
// pointers, so that a long backlog costs the garbage collector nothing.
type item struct {
	id      uint64
	seq     int64 // order of Enqueue: the older head is the smaller seq
	arrival int64
	flow    int32 // slot
	prev    int32 // in its flow's queue, or among those in flight on its device
	next    int32
	flight  int32 // index of its flight, none while queued
}

// flight is what a grant adds to an item. It lies apart because of the many
// items queued only few are in flight.
type flight struct {
	device   int32 // key of the device
	granted  int64
	setup    int64 // as View expected it
	estimate int64 // service expected
	basis    int64 // service that the charge stands for
	charge   int64 // to the flow
	above    int64 // to its namespace
	before   int32 // flights of the same flow
	after    int32
}

const none int32 = -1

// list is a doubly linked list of items through prev and next.
type list struct{ head, tail, n int32 }

func emptyList() list { return list{none, none, 0} }

// items is the store of all items and flights with their free places.
type items struct {
	all       []item
	spare     []int32
	flights   []flight
	spareAway []int32
	costs     map[int32]int64 // what the caller expects, of those of which it does
	byID      ids
}

func (s *items) find(id uint64) (int32, bool) { return s.byID.find(s.all, id) }

func (s *items) add(it Item, seq, now int64, flow int32) int32 {
	if _, ok := s.find(it.ID); ok {
		panic("sched: item enqueued twice")
	}
	i := take(&s.all, &s.spare)
	cost := min(max(it.Cost, 0), limit)
	s.all[i] = item{id: it.ID, seq: seq, arrival: now, flow: flow, prev: none, next: none, flight: none}
	if cost > 0 {
		if s.costs == nil {
			s.costs = map[int32]int64{}
		}
		s.costs[i] = int64(cost)
	}
	s.byID.put(it.ID, i)
	return i
}

// depart gives item i of f a flight.
func (s *items) depart(f *flow, i int32) *flight {
	k := take(&s.flights, &s.spareAway)
	s.all[i].flight = k
	fl := &s.flights[k]
	fl.before, fl.after = none, f.flying
	if f.flying != none {
		s.flights[f.flying].before = k
	}
	f.flying = k
	return fl
}

// land ends the flight of item i of f.
func (s *items) land(f *flow, i int32) {
	k := s.all[i].flight
	fl := &s.flights[k]
	if fl.before != none {
		s.flights[fl.before].after = fl.after
	} else {
		f.flying = fl.after
	}
	if fl.after != none {
		s.flights[fl.after].before = fl.before
	}
	s.spareAway = append(s.spareAway, k)
	s.all[i].flight = none
}

func (s *items) flightOf(i int32) *flight { return &s.flights[s.all[i].flight] }

func (s *items) release(i int32) {
	s.byID.drop(s.all[i].id, i)
	delete(s.costs, i)
	s.spare = append(s.spare, i)
}

// take gives the index of a free place, growing all when there is none.
func take[E any](all *[]E, spare *[]int32) int32 {
	if n := len(*spare); n > 0 {
		i := (*spare)[n-1]
		*spare = (*spare)[:n-1]
		return i
	}
	var e E
	*all = append(*all, e)
	return int32(len(*all) - 1)
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
