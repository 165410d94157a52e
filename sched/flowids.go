package sched

import "hash/maphash"

// flowIDs finds a flow by its id: open addressing with linear probing, as ids does.
// With very many flows a lookup costs what it must fetch from memory: here one
// cell and the flow itself, which whoever looks it up needs next.
type flowIDs struct {
	seed maphash.Seed
	all  *flowPlaces
	cell []flowCell // a power of two, at most half full
	n    int
	last *flow // found last: one flow is asked about several times in a row
}

type flowCell struct {
	hash uint32
	slot int32 // slot+1, 0 for a free cell
}

func newFlowIDs(all *flowPlaces) flowIDs { return flowIDs{seed: maphash.MakeSeed(), all: all} }

func (t *flowIDs) hash(id FlowID) uint32 {
	const mix = 0x9e3779b97f4a7c15
	return uint32((maphash.String(t.seed, id.Function)+mix)*mix ^ maphash.String(t.seed, id.Namespace))
}

// find gives the flow of an id, nil for none.
func (t *flowIDs) find(id FlowID) *flow {
	if t.last != nil && t.last.id == id {
		return t.last
	}
	if t.n == 0 {
		return nil
	}
	hash, mask := t.hash(id), len(t.cell)-1
	for i := int(hash) & mask; t.cell[i].slot != 0; i = (i + 1) & mask {
		if c := t.cell[i]; c.hash == hash {
			if f := t.all.at(c.slot - 1); f.id == id {
				t.last = f
				return f
			}
		}
	}
	return nil
}

// put adds a flow whose id is not there yet.
func (t *flowIDs) put(f *flow) {
	if 2*(t.n+1) > len(t.cell) {
		old := t.cell
		t.cell, t.n = make([]flowCell, max(16, 2*len(old))), 0
		for _, c := range old {
			if c.slot != 0 {
				t.insert(c)
			}
		}
	}
	t.insert(flowCell{t.hash(f.id), f.slot + 1})
	t.last = f
}

func (t *flowIDs) insert(c flowCell) {
	mask := len(t.cell) - 1
	i := int(c.hash) & mask
	for t.cell[i].slot != 0 {
		i = (i + 1) & mask
	}
	t.cell[i] = c
	t.n++
}

// drop takes a flow out and closes the gap, so that no probe ends too early.
func (t *flowIDs) drop(f *flow) {
	mask := len(t.cell) - 1
	i := int(t.hash(f.id)) & mask
	for t.cell[i].slot != f.slot+1 {
		i = (i + 1) & mask
	}
	t.n, t.last = t.n-1, nil
	for gap := i; ; {
		t.cell[gap] = flowCell{}
		for i = (i + 1) & mask; ; i = (i + 1) & mask {
			if t.cell[i].slot == 0 {
				return
			}
			// A cell may move into the gap if its home is not in (gap, i].
			if (i-int(t.cell[i].hash))&mask >= (i-gap)&mask {
				t.cell[gap] = t.cell[i]
				gap = i
				break
			}
		}
	}
}
