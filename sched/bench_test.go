package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// load keeps a policy at a constant backlog: each step an invocation ends, a new one
// arrives and Next grants the token.
type load struct {
	s       *Scheduler
	flows   []FlowID
	rng     *rand.Rand
	now     time.Duration
	id      uint64
	running []uint64
}

// spread is a View that costs nothing: setups from the length of the name.
type spread struct{}

func (spread) Work(f FlowID) Work {
	p := Placement{Setup: time.Duration(len(f.Function)*len(f.Function)) * time.Millisecond, Fits: true}
	return testWork{devices: 1, at: func(int) Placement { return p }}
}

func newLoad(tb testing.TB, policy string, flows, queued int) *load {
	cfg := testPolicy(policy).Defaults()
	cfg.MaxFlows = 10 * flows
	return newLoadWith(tb, policy, cfg, flows, queued)
}

func newLoadWith(tb testing.TB, policy string, cfg Config, flows, queued int) *load {
	return newLoadOn(tb, policy, cfg, spread{}, 2, flows, queued)
}

func newLoadOn(tb testing.TB, policy string, cfg Config, view View, devices, flows, queued int) *load {
	l := &load{rng: rand.New(rand.NewPCG(1, 2))}
	s, err := testPolicy(policy).New(cfg, view)
	if err != nil {
		tb.Fatal(err)
	}
	l.s = s
	for d := range devices {
		s.AddDevice(0, d, 2)
	}
	for i := range flows {
		f := FlowID{fmt.Sprintf("namespace-%d", i%100), fmt.Sprintf("package/function-%d", i)}
		l.flows = append(l.flows, f)
	}
	for i := range queued {
		l.arrive(l.flows[i%flows])
	}
	l.fill()
	return l
}

func (l *load) arrive(f FlowID) {
	l.id++
	l.now += time.Microsecond
	l.s.Enqueue(l.now, Invocation{ID: l.id, Flow: f})
}

func (l *load) fill() {
	for {
		c, ok := l.s.Next(l.now)
		if !ok {
			return
		}
		l.running = append(l.running, c.Invocation)
	}
}

func (l *load) step() { l.stepWith(l.flows[l.rng.IntN(len(l.flows))]) }

func (l *load) stepWith(next FlowID) {
	l.end()
	l.arrive(next)
	l.fill()
}

// end lets a running invocation end.
func (l *load) end() {
	l.now += 10 * time.Millisecond
	if len(l.running) == 0 {
		return
	}
	k := l.rng.IntN(len(l.running))
	id := l.running[k]
	l.running[k] = l.running[len(l.running)-1]
	l.running = l.running[:len(l.running)-1]
	l.s.Done(l.now, id, Usage{Service: time.Duration(1+l.rng.IntN(1999)) * time.Millisecond})
}

// tick lets the time pass until something changes.
func (l *load) tick() {
	if at, ok := l.s.Deadline(); ok {
		l.now = max(l.now, at)
	}
	l.s.Tick(l.now)
	l.fill()
}

func benchmarkNext(b *testing.B, policy string, flows, queued int) {
	l := newLoad(b, policy, flows, queued)
	for range min(4*flows, warmUp) {
		l.step()
	}
	b.ReportAllocs()
	took := make([]time.Duration, 0, b.N)
	for range b.N {
		began := time.Now()
		l.step()
		took = append(took, time.Since(began))
	}
	reportQuantiles(b, took)
}

// BenchmarkNextFlows shows how the cost grows with the number of flows, 100,000
// invocations queued over all of them. docs/figures/draw.py draws the medians.
func BenchmarkNextFlows(b *testing.B) {
	for _, p := range []string{"mqfq-sticky", "sticky-plus", "fcfs"} {
		for _, n := range []int{10, 100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", p, n), func(b *testing.B) { benchmarkNext(b, p, n, 100_000) })
		}
	}
}
