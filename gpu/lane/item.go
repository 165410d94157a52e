package lane

import "time"

// item is one that was submitted and has not left. Those queued lie in their
// flow's list; there may be very many, so they are small and lie in one slice.
type item struct {
	id   uint64
	seq  uint64 // order of submission
	at   time.Duration
	rev  *revision
	run  *run // nil while it is queued
	prev int32
	next int32
}

// none ends a list of items.
const none int32 = -1

// queue is the store of all items.
type queue struct {
	all    []item
	parked []uint64 // one bit for each of all: its body is not at hand
	free   []int32
	byID   map[uint64]int32
	seq    uint64
	queued int
}

// add makes an item, of no list yet.
func (q *queue) add(it item) int32 {
	q.seq++
	it.seq, it.prev, it.next = q.seq, none, none
	i := int32(len(q.all))
	if n := len(q.free); n > 0 {
		i, q.free = q.free[n-1], q.free[:n-1]
		q.all[i] = it
	} else {
		q.all = append(q.all, it)
	}
	q.byID[it.id] = i
	return i
}

// park notes that an item's body is not at hand.
func (q *queue) park(i int32) {
	for len(q.parked) <= int(i/64) {
		q.parked = append(q.parked, 0)
	}
	q.parked[i/64] |= 1 << (i % 64)
}

// fetch tells whether an item's body is not at hand, and that it will be.
func (q *queue) fetch(i int32) bool {
	word, bit := int(i/64), uint64(1)<<(i%64)
	if word >= len(q.parked) || q.parked[word]&bit == 0 {
		return false
	}
	q.parked[word] &^= bit
	return true
}

// drop forgets an item, which is in no list.
func (q *queue) drop(i int32) {
	delete(q.byID, q.all[i].id)
	q.all[i] = item{}
	q.fetch(i)
	q.free = append(q.free, i)
}

// run is that of an item, nil when the item is queued or not known.
func (q *queue) run(id uint64) *run {
	if i, ok := q.byID[id]; ok {
		return q.all[i].run
	}
	return nil
}

// line puts an item into its flow's list, where its age says. Only items that
// were granted and came back are not the youngest, and those are among the
// first.
func (q *queue) line(f *flow, i int32) {
	at := none
	if f.tail != none && q.all[f.tail].seq > q.all[i].seq {
		for at = f.head; q.all[at].seq < q.all[i].seq; {
			at = q.all[at].next
		}
	}
	before := f.tail
	if at != none {
		before, q.all[at].prev = q.all[at].prev, i
	} else {
		f.tail = i
	}
	if before != none {
		q.all[before].next = i
	} else {
		f.head = i
	}
	q.all[i].prev, q.all[i].next = before, at
	f.queued++
	q.queued++
}

// unline takes an item out of its flow's list.
func (q *queue) unline(f *flow, i int32) {
	it := &q.all[i]
	if it.prev != none {
		q.all[it.prev].next = it.next
	} else {
		f.head = it.next
	}
	if it.next != none {
		q.all[it.next].prev = it.prev
	} else {
		f.tail = it.prev
	}
	it.prev, it.next = none, none
	f.queued--
	q.queued--
}
