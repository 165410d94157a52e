package sched

// entry is one member of a heap: its slot, and its key beside it, so that comparing
// does not touch the flow itself. With many flows that is where time goes, and so it
// is small: the four children of a member lie in one cache line.
type entry struct {
	k1   int64
	rest uint64 // k2, unique in a heap, which makes the order total; and the slot
}

// slotBits is how many bits of an entry are the slot's. The others take what is
// counted up by one with each item or flow: 4e12 of them.
const slotBits = 22

// maxSlots is how many flows there may be at once.
const maxSlots = 1 << slotBits

func entryOf(k1, k2 int64, slot int32) entry {
	return entry{k1, uint64(k2)<<slotBits | uint64(slot)}
}

func (a entry) slot() int32 { return int32(a.rest & (maxSlots - 1)) }
func (a entry) k2() int64   { return int64(a.rest >> slotBits) }

func (a entry) before(b entry) bool {
	return a.k1 < b.k1 || a.k1 == b.k1 && a.rest < b.rest
}

// heap is an indexed 4-ary min-heap of slots. Several heaps may share one
// position table as long as no slot is in two of them at once.
type heap struct {
	e  []entry
	at *[]int32 // slot -> index+1, 0 when absent
	firsts
}

func (h *heap) len() int { return len(h.e) }

// top is the least entry; the heap must not be empty.
func (h *heap) top() entry { return h.e[0] }

// least is the first few entries in their order, valid until the heap changes.
func (h *heap) least() []entry { return h.some(len(h.e), h.first) }

// put brings an entry in or gives it its new key.
func (h *heap) put(_ int32, e entry) {
	if (*h.at)[e.slot()] == 0 {
		h.push(e.slot(), e.k1, e.k2())
	} else {
		h.fix(e.slot(), e.k1, e.k2())
	}
}

func (h *heap) drop(_ int32, slot int32) { h.remove(slot) }

// first copies the first entries in their order into a buffer, as many as there
// are places for, and says how many there were.
func (h *heap) first(buf []entry) (n int) {
	// Each that is taken brings its children to those that may be next.
	var next [4*keptLeast + 1]int32
	open := 0
	if len(h.e) > 0 {
		open = 1
	}
	for n < len(buf) && open > 0 {
		best := 0
		for k := 1; k < open; k++ {
			if h.e[next[k]].before(h.e[next[best]]) {
				best = k
			}
		}
		i := int(next[best])
		open--
		next[best] = next[open]
		buf[n] = h.e[i]
		n++
		for c := 4*i + 1; c <= 4*i+4 && c < len(h.e) && n < len(buf); c++ {
			next[open] = int32(c)
			open++
		}
	}
	return n
}

func (h *heap) push(slot int32, k1, k2 int64) {
	e := entryOf(k1, k2, slot)
	h.came(e, len(h.e))
	if len(h.e) == cap(h.e) {
		h.grow()
	}
	h.e = append(h.e, e)
	h.up(len(h.e) - 1)
}

// grow makes room for more. Before the first there is room for three, so that
// children of one member begin with a cache line.
func (h *heap) grow() {
	const before = 3
	all := make([]entry, max(16, 2*(cap(h.e)+before)))
	h.e = all[before : before+copy(all[before:], h.e)]
}

// remove takes a slot out; it must be in this heap.
func (h *heap) remove(slot int32) {
	i := int((*h.at)[slot]) - 1
	(*h.at)[slot] = 0
	h.goes(h.e[i])
	last := len(h.e) - 1
	moved := h.e[last]
	h.e = h.e[:last]
	if i == last {
		return
	}
	h.e[i] = moved
	if !h.up(i) {
		h.down(i)
	}
}

// fix gives a slot of this heap a new key.
func (h *heap) fix(slot int32, k1, k2 int64) {
	i := int((*h.at)[slot]) - 1
	e := entryOf(k1, k2, slot)
	if h.e[i] == e {
		return
	}
	h.goes(h.e[i])
	h.e[i] = e
	h.came(h.e[i], len(h.e)-1)
	if !h.up(i) {
		h.down(i)
	}
}

// up moves the entry at i towards the root and says whether it moved.
func (h *heap) up(i int) bool {
	at, e, start := *h.at, h.e[i], i
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(h.e[parent]) {
			break
		}
		h.e[i] = h.e[parent]
		at[h.e[i].slot()] = int32(i + 1)
		i = parent
	}
	h.e[i] = e
	at[e.slot()] = int32(i + 1)
	return i != start
}

func (h *heap) down(i int) {
	at, e, n := *h.at, h.e[i], len(h.e)
	for {
		least, child := -1, 4*i+1
		for c := child; c < child+4 && c < n; c++ {
			if least < 0 || h.e[c].before(h.e[least]) {
				least = c
			}
		}
		if least < 0 || !h.e[least].before(e) {
			break
		}
		h.e[i] = h.e[least]
		at[h.e[i].slot()] = int32(i + 1)
		i = least
	}
	h.e[i] = e
	at[e.slot()] = int32(i + 1)
}
