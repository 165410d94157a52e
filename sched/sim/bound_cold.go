package sim

import "container/heap"

// LeastCold returns the least number of cold starts that the server's places
// allow when activations are granted in order of arrival, though the scheduler
// knew the future: the container that goes is that of the function whose next
// call is farthest, or never (Belady 1966). A scheduler that puts calls off may
// start fewer: no number of starts bounds it, but what they and the waiting
// cost together does, which is LowerBound's. Activations within the warm-up are
// left out; they may leave as many containers as there are places.
func LeastCold(w *Workload, p Params) int {
	places := p.Pool.Size * p.Devices
	fns := make([]int32, 0, len(w.Arrivals))
	for _, a := range w.Arrivals {
		if a.At >= p.Warmup {
			fns = append(fns, a.Function)
		}
	}
	if places == 0 {
		return len(fns)
	}
	n := leastCold(fns, len(w.Functions), places)
	if len(fns) < len(w.Arrivals) {
		n = max(0, n-places)
	}
	return n
}

// leastCold counts the cold starts of Belady's rule.
func leastCold(fns []int32, functions, places int) (n int) {
	const never = 1 << 62
	next := make([]int, len(fns)) // when each call's function is called again
	again := make([]int, functions)
	for f := range again {
		again[f] = never
	}
	for i := len(fns) - 1; i >= 0; i-- {
		next[i], again[fns[i]] = again[fns[i]], i
	}
	// A function may stand in the heap several times; only the newest counts.
	var kept farthest
	until := make([]int, functions) // next call of a function with a container, 0 without
	live := 0
	for i, f := range fns {
		if until[f] == 0 {
			n++
			live++
			for live > places {
				top := heap.Pop(&kept).(due)
				if until[top.fn] == top.next {
					until[top.fn], live = 0, live-1
				}
			}
		}
		until[f] = next[i]
		heap.Push(&kept, due{f, next[i]})
	}
	return n
}

// due is a function and its next call.
type due struct {
	fn   int32
	next int
}

type farthest []due

func (h farthest) Len() int           { return len(h) }
func (h farthest) Less(i, j int) bool { return h[i].next > h[j].next }
func (h farthest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *farthest) Push(x any)        { *h = append(*h, x.(due)) }

func (h *farthest) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
