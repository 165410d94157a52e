package sched

import "math/bits"

// ids finds an item's index by its id: open addressing with linear probing.
// A Go map would do, but it allocates now and then under steady insertion and
// deletion of ever new keys. A cell holds half of the hash; the id itself is
// compared in the item, which whoever looks it up needs next anyway.
//
// Ids that follow one another lie side by side: whoever counts them up finds the
// next cell in the line of memory that the last one brought.
type ids struct {
	cell []idCell // a power of two, at most half full
	n    int
}

// sideBySide is how many cells a line of memory holds.
const sideBySide = 8

type idCell struct {
	hash uint32
	item int32 // index+1, 0 for a free cell
}

// hashID spreads lines; inside of one an id keeps its place.
func hashID(id uint64) uint32 {
	line := id / sideBySide * 0x9e3779b97f4a7c15 >> 32
	return uint32(line&^(sideBySide-1) | id%sideBySide)
}

func (t *ids) home(hash uint32) int {
	lines := bits.Len32(uint32(len(t.cell)/sideBySide - 1))
	return int(hash>>(32-lines)*sideBySide | hash%sideBySide)
}

// find gives the item of all with this id.
func (t *ids) find(all []item, id uint64) (int32, bool) {
	if t.n == 0 {
		return 0, false
	}
	hash := hashID(id)
	for i := t.home(hash); t.cell[i].item != 0; i = (i + 1) & (len(t.cell) - 1) {
		if c := t.cell[i]; c.hash == hash && all[c.item-1].id == id {
			return c.item - 1, true
		}
	}
	return 0, false
}

// put adds an id that is not there yet.
func (t *ids) put(id uint64, item int32) {
	if 2*(t.n+1) > len(t.cell) {
		t.grow()
	}
	t.insert(idCell{hashID(id), item + 1})
}

func (t *ids) insert(c idCell) {
	i := t.home(c.hash)
	for t.cell[i].item != 0 {
		i = (i + 1) & (len(t.cell) - 1)
	}
	t.cell[i] = c
	t.n++
}

func (t *ids) grow() {
	old := t.cell
	t.cell, t.n = make([]idCell, max(16, 2*len(old))), 0
	for _, c := range old {
		if c.item != 0 {
			t.insert(c)
		}
	}
}

// drop takes an item's id out and closes the gap, so that no probe ends too
// early.
func (t *ids) drop(id uint64, item int32) {
	mask := len(t.cell) - 1
	i := t.home(hashID(id))
	for t.cell[i].item != item+1 {
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
			if (i-t.home(t.cell[i].hash))&mask >= (i-gap)&mask {
				t.cell[gap] = t.cell[i]
				gap = i
				break
			}
		}
	}
}
