package sched

import std "container/heap"

// node is the membership of a flow in a heap, by a time.
type node struct {
	key int64
	of  *flow
	at  int // index+1 in its heap, 0 outside
}

// heap is an indexed binary min-heap of flows, as container/heap takes it. Flows of equal
// keys go by the order of their creation.
type heap []*node

func (h heap) Len() int { return len(h) }
func (h heap) Less(i, j int) bool {
	if h[i].key != h[j].key {
		return h[i].key < h[j].key
	}
	return h[i].of.serial < h[j].of.serial
}

func (h heap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i+1, j+1
}

func (h *heap) Push(x any) {
	n := x.(*node)
	*h = append(*h, n)
	n.at = len(*h)
}

func (h *heap) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h, n.at = (*h)[:last], 0
	return n
}

// top is the least member; the heap must not be empty.
func (h heap) top() *node { return h[0] }

// put brings a node in or gives it its new key.
func (h *heap) put(n *node, key int64) {
	switch {
	case n.at == 0:
		n.key = key
		std.Push(h, n)
	case n.key != key:
		n.key = key
		std.Fix(h, n.at-1)
	}
}

// remove takes a node out, if it is in.
func (h *heap) remove(n *node) {
	if n.at > 0 {
		std.Remove(h, n.at-1)
	}
}
