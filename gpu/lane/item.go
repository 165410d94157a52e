package lane

import "time"

// item is one that was submitted and has not left. Those queued lie in their
// flow's list; there may be very many, so they are small and lie in blocks.
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

// blockItems is how many items lie together: one slice of all would be copied as
// it grows, and keep a fifth of its size for what may come.
const blockItems = 512

// queue is the store of all items.
type queue struct {
	blocks []*[blockItems]item
	made   int32    // places in use or free
	parked []uint64 // one bit for each place: its body is not at hand
	free   []int32
	byID   map[uint64]int32
	seq    uint64
	queued int
}

// add makes an item, of no list yet.
func (q *queue) add(it item) int32 {
	q.seq++
	it.seq, it.prev, it.next = q.seq, none, none
	i := q.made
	if n := len(q.free); n > 0 {
		i, q.free = q.free[n-1], q.free[:n-1]
	} else {
		if i%blockItems == 0 {
			q.blocks = append(q.blocks, new([blockItems]item))
		}
		q.made++
	}
	*q.at(i) = it
	q.byID[it.id] = i
	return i
}

// at is the item of a place.
func (q *queue) at(i int32) *item { return &q.blocks[uint32(i)/blockItems][uint32(i)%blockItems] }

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
	delete(q.byID, q.at(i).id)
	*q.at(i) = item{}
	q.fetch(i)
	q.free = append(q.free, i)
}

// run is that of an item, nil when the item is queued or not known.
func (q *queue) run(id uint64) *run {
	if i, ok := q.byID[id]; ok {
		return q.at(i).run
	}
	return nil
}

// line puts an item into its flow's list, where its age says. Only items that
// were granted and came back are not the youngest, and those are among the
// first.
func (q *queue) line(f *flow, i int32) {
	at := none
	if f.tail != none && q.at(f.tail).seq > q.at(i).seq {
		for at = f.head; q.at(at).seq < q.at(i).seq; {
			at = q.at(at).next
		}
	}
	before := f.tail
	if at != none {
		before, q.at(at).prev = q.at(at).prev, i
	} else {
		f.tail = i
	}
	if before != none {
		q.at(before).next = i
	} else {
		f.head = i
	}
	q.at(i).prev, q.at(i).next = before, at
	f.queued++
	q.queued++
}

// unline takes an item out of its flow's list.
func (q *queue) unline(f *flow, i int32) {
	it := q.at(i)
	if it.prev != none {
		q.at(it.prev).next = it.next
	} else {
		f.head = it.next
	}
	if it.next != none {
		q.at(it.next).prev = it.prev
	} else {
		f.tail = it.prev
	}
	it.prev, it.next = none, none
	f.queued--
	q.queued--
}
