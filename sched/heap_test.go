package sched

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHeap compares the indexed heap with a sorted list.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	at := make([]int32, 50)
	h := &heap{at: &at}
	list := map[int32]entry{}
	for step := range 20_000 {
		slot := int32(rng.IntN(len(at)))
		e := entryOf(int64(rng.IntN(20)), int64(step), slot)
		_, in := list[slot]
		switch {
		case !in:
			h.push(slot, e.k1, e.k2())
			list[slot] = e
		case rng.IntN(2) == 0:
			h.fix(slot, e.k1, e.k2())
			list[slot] = e
		default:
			h.remove(slot)
			delete(list, slot)
		}
		if rng.IntN(2) == 0 {
			h.least()
		}
		if err := checkHeap("heap", h); err != nil {
			t.Fatal(err)
		}
		if h.len() != len(list) {
			t.Fatalf("length %d, want %d", h.len(), len(list))
		}
		for _, e := range list {
			if e.before(h.top()) {
				t.Fatalf("top is %v, but %v is before it", h.top(), e)
			}
		}
	}
}

// TestIDs compares the id table with a map, with ids that collide.
func TestIDs(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var s items
	want := map[uint64]int32{}
	for range 50_000 {
		id := uint64(rng.IntN(300)) << (rng.IntN(2) * 32)
		i, in := want[id]
		got, ok := s.find(id)
		if ok != in || ok && got != i {
			t.Fatalf("find %d: %d %t, want %d %t", id, got, ok, i, in)
		}
		if in {
			s.release(i)
			delete(want, id)
			continue
		}
		want[id] = s.add(Item{ID: id}, 1, 0, 0)
	}
	if s.byID.n != len(want) {
		t.Errorf("%d ids, want %d", s.byID.n, len(want))
	}
}

// TestPutBack sees an undone item return to the place its age gives it.
func TestPutBack(t *testing.T) {
	var s items
	l := emptyList()
	var index []int32
	for seq := range int64(5) {
		i := s.add(Item{ID: uint64(seq)}, seq, 0, 0)
		s.append(&l, i)
		index = append(index, i)
	}
	for _, k := range []int{1, 0, 2} {
		s.unlink(&l, index[k])
	}
	for _, k := range []int{1, 2, 0} {
		s.putBack(&l, index[k])
	}
	var got []int32
	for i := l.head; i != none; i = s.all[i].next {
		got = append(got, i)
	}
	if !slices.Equal(got, index) {
		t.Errorf("got %v, want %v", got, index)
	}
}
