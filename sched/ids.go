package sched

import "math/bits"

// ids finds an item's index by its id: open addressing with linear probing.
// A Go map would do, but it allocates now and then under steady insertion and
// deletion of ever new keys.
type ids struct {
	cell []idCell // a power of two, at most half full
	n    int
}

type idCell struct {
	id   uint64
	item int32 // index+1, 0 for a free cell
}

func (t *ids) home(id uint64) int {
	return int((id * 0x9e3779b97f4a7c15) >> (64 - bits.Len(uint(len(t.cell)-1))))
}

func (t *ids) find(id uint64) (int32, bool) {
	if t.n == 0 {
		return 0, false
	}
	for i := t.home(id); t.cell[i].item != 0; i = (i + 1) & (len(t.cell) - 1) {
		if t.cell[i].id == id {
			return t.cell[i].item - 1, true
		}
	}
	return 0, false
}

// put adds an id that is not there yet.
func (t *ids) put(id uint64, item int32) {
	if 2*(t.n+1) > len(t.cell) {
		t.grow()
	}
	i := t.home(id)
	for t.cell[i].item != 0 {
		i = (i + 1) & (len(t.cell) - 1)
	}
	t.cell[i] = idCell{id, item + 1}
	t.n++
}

func (t *ids) grow() {
	old := t.cell
	t.cell, t.n = make([]idCell, max(16, 2*len(old))), 0
	for _, c := range old {
		if c.item != 0 {
			t.put(c.id, c.item-1)
		}
	}
}

// drop takes an id out and closes the gap, so that no probe ends too early.
func (t *ids) drop(id uint64) {
	mask := len(t.cell) - 1
	i := t.home(id)
	for t.cell[i].id != id || t.cell[i].item == 0 {
		i = (i + 1) & mask
	}
	t.n--
	for gap := i; ; {
		t.cell[gap] = idCell{}
		for i = (i + 1) & mask; ; i = (i + 1) & mask {
			if t.cell[i].item == 0 {
				return
			}
			// A cell may move into the gap if its home is not in (gap, i].
			if (i-t.home(t.cell[i].id))&mask >= (i-gap)&mask {
				t.cell[gap] = t.cell[i]
				gap = i
				break
			}
		}
	}
}
