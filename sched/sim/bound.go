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
// free, and the time that they take is not counted. The bound holds for runs that serve
// everything, and for schedulers that serve a function's calls in order of arrival, as
// all of ours.
func LowerBound(w *Workload, p Params) float64 {
	calls, alone := measuredCalls(w, p)
	return 1000 * share(max(alone, leastOnOneServer(calls, Capacity(p))), len(calls))
}

// call is a measured activation as the bound sees it, in seconds.
type call struct {
	at   float64 // arrival
	left float64 // work of the devices' cores that is left, a first start's included
}

// Before is by the least that is left.
func (c call) Before(d call) bool { return c.left < d.left }

// measuredCalls returns the calls after the warm-up, by arrival, and the sum of their
// durations without waiting.
func measuredCalls(w *Workload, p Params) (calls []call, alone float64) {
	started := make([]bool, len(w.Functions)) // the first start, or the warm-up left a container
	uniform := uniformFunctions(w, p)
	for _, a := range w.Arrivals {
		f, first := &w.Functions[a.Function], !started[a.Function]
		started[a.Function] = p.Pool.Size > 0
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
			if uniform[a.Function] || p.Pool.Size == 0 {
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
	var waiting Queue[call]
	now := 0.0
	serve := func(until float64) {
		for len(waiting) > 0 && now < until {
			end := now + waiting[0].left/speed
			if end > until {
				waiting[0].left -= (until - now) * speed
				break
			}
			now = end
			sum += now - heap.Pop(&waiting).(call).at
		}
		now = until
	}
	for _, c := range calls {
		serve(c.at)
		heap.Push(&waiting, c)
	}
	serve(math.Inf(1))
	return sum
}
