package sched

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHeap compares the indexed heap with a sorted list.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h heap
	nodes := make([]node, 50)
	for i := range nodes {
		nodes[i].of = &flow{serial: int64(i)}
	}
	for step := range 20_000 {
		n := &nodes[rng.IntN(len(nodes))]
		if n.at == 0 || rng.IntN(2) == 0 {
			h.put(n, int64(rng.IntN(20)))
		} else {
			h.remove(n)
		}
		want := slices.SortedFunc(slices.Values(h), func(a, b *node) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.of.serial, b.of.serial))
		})
		if len(h) > 0 && h.top() != want[0] {
			t.Fatalf("step %d: the first is %+v, want %+v", step, h.top(), want[0])
		}
		for i, n := range h {
			if n.at != i+1 {
				t.Fatalf("step %d: index %d of the node at %d", step, n.at, i)
			}
		}
	}
}

// TestPutBack sees an undone invocation return to the position its age gives it.
func TestPutBack(t *testing.T) {
	var f flow
	var all []*invocation
	for seq := range int64(5) {
		it := &invocation{seq: seq}
		f.push(it)
		all = append(all, it)
	}
	for _, k := range []int{1, 0, 2} {
		f.unqueue(all[k])
	}
	for _, k := range []int{1, 2, 0} {
		f.push(all[k])
	}
	if !slices.Equal(f.queue, all) {
		t.Errorf("got %v, want %v", f.queue, all)
	}
}
