package sim

import (
	"container/heap"
	"math"
)

// LowerBound returns a mean latency in milliseconds that no scheduler of this
// server can beat, though it knew the future. It is the largest of three, each
// the optimum of an easier problem or a bound on it: devices that are shared
// without loss (sharing), places that are fewer than functions (scarcity), and,
// for a handful of arrivals, both at once but for interference and memory
// (exactly). Arrivals within the warm-up are left out: what they leave behind is
// free, what they take is not counted. It holds for runs that serve everything,
// and for schedulers that serve a function's calls in order of arrival, as
// all of ours do; where a function's calls cost the same, any order is the same.
func LowerBound(w *Workload, p Params) float64 {
	b := newBounded(w, p)
	best := max(b.sharing(), b.work+b.scarcity(), b.queueing())
	if least, ok := b.exactly(); ok {
		best = max(best, least)
	}
	return 1000 * share(best, len(b.calls))
}

// bounded is a workload and a server as the bounds see them, in seconds.
type bounded struct {
	calls   []call // measured ones, by arrival
	fns     []startable
	places  int // containers on all devices; 0 keeps none
	tokens  int // runs on all devices
	speed   float64
	slowest float64 // a run among as many as there can be
	idle    float64 // work that a second of a token that loads no device costs
	begin   float64 // of what is measured
	horizon float64 // the last call
	work    float64 // of all calls
	drain   drained // set by sharing
}

// call is one measured activation.
type call struct {
	at, work float64
	fn       int
}

// startable is a function as the bounds see it.
type startable struct {
	start  float64 // from the token of a cold run to the run itself
	init   float64 // the part of it that loads the device's cores
	load   float64 // device work that it takes, or keeps from being done
	before bool    // called within the warm-up: it may have a container
	even   bool    // its calls cost the same
	calls  []call
}

func newBounded(w *Workload, p Params) *bounded {
	b := &bounded{
		places: p.Pool.Size * p.Devices, tokens: p.Tokens.Max * p.Devices, speed: Capacity(p),
		slowest: p.Interference.Slowdown(p.Tokens.Max), idle: idle(p),
		begin: p.Warmup.Seconds(), fns: make([]startable, len(w.Functions)),
	}
	for i, f := range w.Functions {
		s := startable{start: (p.ContainerStart + f.Cold - f.Warm).Seconds(), even: true}
		if p.InitInterferes {
			s.init = (f.Cold - f.Warm).Seconds()
		}
		s.load = s.init + b.idle*(s.start-s.init)
		b.fns[i] = s
	}
	for _, a := range w.Arrivals {
		f := &b.fns[a.Function]
		if a.At < p.Warmup {
			f.before = true
			continue
		}
		c := call{at: a.At.Seconds(), work: w.Work(a).Seconds(), fn: int(a.Function)}
		f.even = f.even && (len(f.calls) == 0 || f.calls[0].work == c.work)
		f.calls = append(f.calls, c)
		b.calls = append(b.calls, c)
		b.work += c.work
		b.horizon = c.at
	}
	return b
}

// sharing returns the least sum of latencies of one server that is as fast as
// the devices together at their best concurrency and may preempt: shortest
// remaining work first is its optimum (Schrage 1968). A function's first container must be
// initialized whenever that is; where its calls cost the same, the first one
// may as well bring that work with it, for among equal calls the first to
// be served can be named the first to have come.
func (b *bounded) sharing() float64 {
	var (
		queue shortest
		now   float64
		sum   float64
	)
	b.drain = drained{}
	serve := func(until float64) {
		for len(queue) > 0 && now < until {
			top := &queue[0]
			need := top.remaining / b.speed
			if now+need > until {
				top.remaining -= (until - now) * b.speed
				break
			}
			now += need
			sum += now - top.at
			heap.Pop(&queue)
			b.drain.end(now, len(queue) == 0)
		}
		now = until
	}
	seen := make([]bool, len(b.fns))
	for _, c := range b.calls {
		serve(c.at)
		f, size := &b.fns[c.fn], c.work
		if b.places == 0 || !seen[c.fn] && f.even && !f.before {
			size += f.load
		}
		seen[c.fn] = true
		b.drain.begin(now)
		heap.Push(&queue, remaining{at: c.at, remaining: size})
	}
	serve(math.MaxFloat64)
	return sum
}

// drained is when the server of the bound by sharing was busy, and when calls
// ended in it.
type drained struct {
	last    float64
	busy    bool
	periods []period
}

// period is a time without a pause.
type period struct {
	from, to float64
	ends     []float64
}

func (d *drained) begin(now float64) {
	if !d.busy {
		d.busy, d.periods = true, append(d.periods, period{from: now})
	}
}

func (d *drained) end(now float64, idle bool) {
	p := &d.periods[len(d.periods)-1]
	p.to, p.ends = now, append(p.ends, now)
	d.last, d.busy = now, !idle
}

// remaining is one activation of the bound's server.
type remaining struct{ at, remaining float64 }

type shortest []remaining

func (s shortest) Len() int           { return len(s) }
func (s shortest) Less(i, j int) bool { return s[i].remaining < s[j].remaining }
func (s shortest) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *shortest) Push(x any)        { *s = append(*s, x.(remaining)) }

func (s *shortest) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
