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
	var h heap[int]
	nodes := make([]node[int], 50)
	for i := range nodes {
		nodes[i].of = i
	}
	for step := range 20_000 {
		n := &nodes[rng.IntN(len(nodes))]
		if n.at == 0 || rng.IntN(2) == 0 {
			h.put(n, rank{int64(rng.IntN(2)), int64(rng.IntN(20)), int64(step)})
		} else {
			h.remove(n)
		}
		if err := checkHeap("heap", h); err != nil {
			t.Fatal(err)
		}
		want := slices.SortedFunc(slices.Values(h), func(a, b *node[int]) int {
			return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.key, b.key), cmp.Compare(a.tie, b.tie))
		})
		var first [4]*node[int]
		if got := h.least(first[:]); !slices.Equal(got, want[:min(4, len(want))]) {
			t.Fatalf("step %d: the first are %v, want %v", step, got, want)
		}
	}
}

// TestPutBack sees an undone invocation return to the position its age gives it.
func TestPutBack(t *testing.T) {
	var f flow
	var all []*invocation
	for seq := range int64(5) {
		it := &invocation{seq: seq}
		it.queued = f.queue.PushBack(it)
		all = append(all, it)
	}
	for _, k := range []int{1, 0, 2} {
		f.queue.Remove(all[k].queued)
	}
	for _, k := range []int{1, 2, 0} {
		f.putBack(all[k])
	}
	var got []*invocation
	for e := f.queue.Front(); e != nil; e = e.Next() {
		got = append(got, e.Value.(*invocation))
	}
	if !slices.Equal(got, all) {
		t.Errorf("got %v, want %v", got, all)
	}
}
