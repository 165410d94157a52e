package sim

import (
	"container/heap"
	"math"
)

// LowerBound returns a mean latency in milliseconds that no scheduler of this
// server can beat, though it knew the future. Everything is warm in it but the
// first start of each function, which is paid. It is the larger of two sums:
// that of all work and first starts, since no run is faster than alone, and that
// of the latencies on one preemptive server as fast as all devices together
// (leastOnOneServer). Memory, tokens and containers of the pool do not matter.
//
// Arrivals within the warm-up are left out: the containers that they leave are
// free, and the time that they take is not counted. The bound holds for runs that serve everything, and for
// schedulers that serve a function's calls in order of arrival, as all of ours.
func LowerBound(w *Workload, p Params) float64 {
	calls, alone := measuredCalls(w, p)
	return 1000 * share(max(alone, leastOnOneServer(calls, Capacity(p))), len(calls))
}

// call is a measured activation as the bound sees it, in seconds.
type call struct {
	at   float64 // arrival
	left float64 // work of the devices' cores that is left, a first start's included
}

// measuredCalls returns the calls after the warm-up, by arrival, and the sum of
// what they take alone.
func measuredCalls(w *Workload, p Params) (calls []call, alone float64) {
	paid := make([]bool, len(w.Functions)) // the first start, or the warm-up left a container
	uniform := uniformFunctions(w, p)
	for _, a := range w.Arrivals {
		f, first := &w.Functions[a.Function], !paid[a.Function]
		paid[a.Function] = p.Pool.Size > 0
		if a.At < p.Warmup {
			continue
		}
		c := call{at: a.At.Seconds(), left: w.Work(a).Seconds()}
		alone += c.left
		if first {
			initialization := (f.Cold - f.Warm).Seconds()
			alone += p.ContainerStart.Seconds() + initialization
			// The initialization loads the device with the call that is served first.
			// Where all calls of the function cost the same, that may be taken to be
			// the first to arrive: the sum does not change.
			if p.InitInterferes && (uniform[a.Function] || p.Pool.Size == 0) {
				c.left += initialization
			}
		}
		calls = append(calls, c)
	}
	return calls, alone
}

// uniformFunctions returns which functions have measured calls of one cost only.
func uniformFunctions(w *Workload, p Params) []bool {
	uniform := make([]bool, len(w.Functions))
	work := make([]float64, len(w.Functions))
	for _, a := range w.Arrivals {
		if a.At < p.Warmup {
			continue
		}
		s := w.Work(a).Seconds()
		uniform[a.Function] = work[a.Function] == 0 || uniform[a.Function] && work[a.Function] == s
		work[a.Function] = s
	}
	return uniform
}

// leastOnOneServer returns the least sum of latencies on one preemptive server:
// the call with the least work left is served first (Schrage 1968).
func leastOnOneServer(calls []call, speed float64) (sum float64) {
	var queue shortest
	now := 0.0
	serve := func(until float64) {
		for len(queue) > 0 && now < until {
			end := now + queue[0].left/speed
			if end > until {
				queue[0].left -= (until - now) * speed
				break
			}
			now = end
			sum += now - heap.Pop(&queue).(call).at
		}
		now = until
	}
	for _, c := range calls {
		serve(c.at)
		heap.Push(&queue, c)
	}
	serve(math.Inf(1))
	return sum
}

// shortest is a heap by work left.
type shortest []call

func (s shortest) Len() int           { return len(s) }
func (s shortest) Less(i, j int) bool { return s[i].left < s[j].left }
func (s shortest) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *shortest) Push(x any)        { *s = append(*s, x.(call)) }

func (s *shortest) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// LeastCold returns the least number of cold starts that the server's pool
// allows when activations are granted in order of arrival, though the scheduler
// knew the future: the container that goes is that of the function whose next
// call is farthest, or never (Belady 1966). A scheduler that puts calls off may
// start fewer. Activations within the warm-up are left out; they may leave as
// many containers as the pool takes.
func LeastCold(w *Workload, p Params) (cold int) {
	size := p.Pool.Size * p.Devices
	next := nextCalls(w)
	resident := make(map[int32]int, min(size, len(w.Functions))) // the next call of each function with a container
	measured := 0
	for i, a := range w.Arrivals {
		if a.At < p.Warmup {
			continue
		}
		measured++
		if _, ok := resident[a.Function]; !ok {
			cold++
			if size > 0 && len(resident) == size {
				delete(resident, farthest(resident))
			}
		}
		if size > 0 {
			resident[a.Function] = next[i]
		}
	}
	if measured < len(w.Arrivals) {
		cold = max(0, cold-size)
	}
	return cold
}

// nextCalls returns for each arrival the index of its function's next one, or a
// distinct number beyond them all.
func nextCalls(w *Workload) []int {
	n := len(w.Arrivals)
	next, again := make([]int, n), make([]int, len(w.Functions))
	for f := range again {
		again[f] = n + f
	}
	for i := n - 1; i >= 0; i-- {
		f := w.Arrivals[i].Function
		next[i], again[f] = again[f], i
	}
	return next
}

// farthest returns the function whose next call is farthest. No two are equal.
func farthest(resident map[int32]int) (fn int32) {
	most := -1
	for f, at := range resident {
		if at > most {
			fn, most = f, at
		}
	}
	return fn
}
