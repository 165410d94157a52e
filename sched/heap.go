package sched

import (
	std "container/heap"
	"slices"
)

// rank is a key: the least goes first. The tie is unique in a heap, so that the
// order is total.
type rank struct{ class, key, tie int64 }

func (a rank) before(b rank) bool {
	switch {
	case a.class != b.class:
		return a.class < b.class
	case a.key != b.key:
		return a.key < b.key
	}
	return a.tie < b.tie
}

// node is the membership of a flow or a namespace in a heap.
type node[T any] struct {
	rank
	of T
	at int // index+1 in its heap, 0 outside
}

// heap is an indexed binary min-heap, as container/heap takes it.
type heap[T any] []*node[T]

func (h heap[T]) Len() int           { return len(h) }
func (h heap[T]) Less(i, j int) bool { return h[i].before(h[j].rank) }

func (h heap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i+1, j+1
}

func (h *heap[T]) Push(x any) {
	n := x.(*node[T])
	*h = append(*h, n)
	n.at = len(*h)
}

func (h *heap[T]) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h, n.at = (*h)[:last], 0
	return n
}

// top is the least member; the heap must not be empty.
func (h heap[T]) top() *node[T] { return h[0] }

// put brings a node in or gives it its new rank.
func (h *heap[T]) put(n *node[T], r rank) {
	switch {
	case n.at == 0:
		n.rank = r
		std.Push(h, n)
	case n.rank != r:
		n.rank = r
		std.Fix(h, n.at-1)
	}
}

// remove takes a node out, if it is in.
func (h *heap[T]) remove(n *node[T]) {
	if n.at > 0 {
		std.Remove(h, n.at-1)
	}
}

// least is the first members in their order, as many as buf has room for.
// A member is a candidate once its parent was taken, so the rest of the heap is not
// visited.
func (h heap[T]) least(buf []*node[T]) []*node[T] {
	var open [maxLeast + 1]int // indices of candidates
	candidates := open[:0]
	if len(h) > 0 {
		candidates = append(candidates, 0)
	}
	n := 0
	for ; n < len(buf) && len(candidates) > 0; n++ {
		best := 0
		for k := range candidates {
			if h[candidates[k]].before(h[candidates[best]].rank) {
				best = k
			}
		}
		i := candidates[best]
		candidates = slices.Delete(candidates, best, best+1)
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			candidates = append(candidates, c)
		}
		buf[n] = h[i]
	}
	return buf[:n]
}
