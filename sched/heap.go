package sched

import "slices"

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

// heap is an indexed binary min-heap.
type heap[T any] []*node[T]

// top is the least member; the heap must not be empty.
func (h heap[T]) top() *node[T] { return h[0] }

// put brings a node in or gives it its new rank.
func (h *heap[T]) put(n *node[T], r rank) {
	switch {
	case n.at == 0:
		*h = append(*h, n)
		n.at = len(*h)
	case n.rank == r:
		return
	}
	n.rank = r
	h.fix(n.at - 1)
}

// remove takes a node out, if it is in.
func (h *heap[T]) remove(n *node[T]) {
	if n.at == 0 {
		return
	}
	i, last := n.at-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	n.at = 0
	if i < last {
		h.fix(i)
	}
}

// least fills buf with the first members in their order, and gives those found.
// Only a parent that is taken makes its children candidates, so the rest of the heap
// is not visited.
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

func (h heap[T]) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i+1, j+1
}

// fix moves the node at i to where its rank belongs.
func (h heap[T]) fix(i int) {
	for i > 0 && h[i].before(h[(i-1)/2].rank) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c].before(h[least].rank) {
				least = c
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
