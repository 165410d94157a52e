package sched

import "iter"

// flowPlaces holds all flows by slot, side by side, so that a slot leads to its
// flow without a pointer on the way, which with very many flows would have to be
// fetched from memory first. A place never moves.
type flowPlaces struct {
	pages []*[flowPage]flow
	n     int // places, those of forgotten flows included
}

// flowPage is how many places are made at once. A page is a large object, which
// begins with a line of memory, and so does each of its flows.
const flowPage = 128

func (p *flowPlaces) at(slot int32) *flow {
	return &p.pages[uint32(slot)/flowPage][uint32(slot)%flowPage]
}

// add makes a new place.
func (p *flowPlaces) add() *flow {
	if p.n == len(p.pages)*flowPage {
		p.pages = append(p.pages, new([flowPage]flow))
	}
	f := p.at(int32(p.n))
	f.slot = int32(p.n)
	p.n++
	return f
}

// all gives the known flows by slot.
func (p *flowPlaces) all() iter.Seq[*flow] {
	return func(yield func(*flow) bool) {
		for slot := range int32(p.n) {
			if f := p.at(slot); f.group != nil && !yield(f) {
				return
			}
		}
	}
}
