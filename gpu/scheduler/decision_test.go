package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// BenchmarkDecision measures one decision, a call of Ready, with 10,000 functions that all
// have queued work. The events before the call are not timed.
//
//	cold:   a token is free, a run is chosen, an idle container is removed and a new
//	        one ordered
//	warm:   a token is free, a run is chosen, and it starts: one namespace
//	        has so much weight that its functions keep their containers
//	memory: a token of every device is free, and no function's memory fits beside
//	        the running ones
//	host:   as memory, but host memory is short
//
// Goal: 1 ms with 8 devices.
func BenchmarkDecision(b *testing.B) {
	for _, p := range sched.Policies() {
		for _, devices := range []int{8, 64} {
			name := func(what string) string { return fmt.Sprintf("%s/%s/devices=%d", p.Name, what, devices) }
			b.Run(name("cold"), func(b *testing.B) { benchmarkStart(b, p.Name, devices, false) })
			b.Run(name("warm"), func(b *testing.B) { benchmarkStart(b, p.Name, devices, true) })
			b.Run(name("memory"), func(b *testing.B) { benchmarkMemory(b, p.Name, devices) })
			b.Run(name("host"), func(b *testing.B) { benchmarkHost(b, p.Name, devices) })
		}
	}
}

// decider drives a scheduler and times its decisions.
type decider struct {
	b          *testing.B
	l          *Scheduler
	fns        []Function
	now        time.Duration
	invocation uint64
	running    []Order
	removed    []Container
	starts     int
	warm       int
}

// favoured is the namespace of much weight.
const favoured = "favoured"

func newDecider(b *testing.B, policy string, devices, flows int, memory int64) *decider {
	c := config(policy, devices)
	c.Sched.MaxFlows, c.Weights = 10*flows, map[string]float64{favoured: 1000}
	l, err := New(c)
	check.NoError(b, err)
	d := &decider{b: b, l: l, fns: make([]Function, flows)}
	for i := range d.fns {
		flow := sched.FlowID{Namespace: fmt.Sprint("namespace-", i%100), Function: fmt.Sprint("package/function-", i)}
		d.fns[i] = Function{Flow: flow, Key: flow.Function, HostMB: 256, Memory: memory, Weight: 1}
	}
	return d
}

func (d *decider) take(e Event) {
	d.now += time.Microsecond
	e.At = d.now
	d.l.Take(e)
}

func (d *decider) submit(f *Function) {
	d.invocation++
	d.take(Event{Kind: Submitted, Invocation: d.invocation, Function: f})
}

// decide is one call of Ready, and how long it took.
func (d *decider) decide() time.Duration {
	began := time.Now()
	orders := d.l.Ready()
	took := time.Since(began)
	d.starts, d.warm = 0, 0
	d.removed = d.removed[:0]
	for _, o := range orders {
		switch o.Do {
		case Start:
			d.starts++
			if o.Start.Warm() {
				d.warm++
			}
			d.running = append(d.running, o)
		case Remove:
			d.removed = append(d.removed, o.Container)
		}
	}
	for _, c := range d.removed {
		d.take(Event{Kind: Removed, Container: c})
	}
	return took
}

// end has the oldest run end.
func (d *decider) end() {
	o := d.running[0]
	d.running = d.running[:copy(d.running, d.running[1:])]
	d.now += 100 * time.Millisecond
	d.take(Event{Kind: Answered, Invocation: o.Invocation})
	d.take(Event{Kind: MemoryReported, Container: o.Container, PID: 1, Usage: gpu.Usage{Allocated: 1 << 20, Resident: 1 << 20}})
	d.take(Event{Kind: Left, Invocation: o.Invocation, Keep: true, Ran: 100 * time.Millisecond})
}

func benchmarkStart(b *testing.B, policy string, devices int, warm bool) {
	d := newDecider(b, policy, devices, 10_000, 100<<20)
	again := len(d.fns) // the functions that are invoked again
	if warm {
		again = 24 // of which a device can keep all
		for i := range d.fns[:again] {
			d.fns[i].Flow.Namespace = favoured
		}
	}
	for n := range d.fns {
		d.submit(&d.fns[n])
	}
	for n := range 10_000 {
		d.submit(&d.fns[n%again])
	}
	d.decide()
	once := func(i int) time.Duration {
		d.end()
		d.submit(&d.fns[i*7919%again])
		return d.decide()
	}
	for i := range 10_000 {
		once(i)
	}
	b.ReportAllocs()
	var took []time.Duration
	started, hot := 0, 0
	for i := 0; b.Loop(); i++ {
		took = append(took, once(i))
		started, hot = started+d.starts, hot+d.warm
	}
	report(b, took)
	b.ReportMetric(float64(started)/float64(b.N), "starts/decision")
	b.ReportMetric(float64(hot)/float64(max(started, 1)), "warm")
}

func benchmarkMemory(b *testing.B, policy string, devices int) {
	d := newDecider(b, policy, devices, 10_000, 8*gib)
	for n := range devices {
		large := Function{Flow: sched.FlowID{Namespace: "n", Function: fmt.Sprint("large", n)}, Memory: 12 * gib, Weight: 1}
		d.submit(&large)
	}
	d.decide()
	d.nothing(devices)
}

func benchmarkHost(b *testing.B, policy string, devices int) {
	d := newDecider(b, policy, devices, 10_000, 100<<20)
	d.take(Event{Kind: HostReported, Host: HostMemory{Free: 100}})
	d.nothing(0)
}

// nothing makes decisions in which none of 10,000 functions can start beside the running ones.
func (d *decider) nothing(running int) {
	for i := range d.fns {
		d.submit(&d.fns[i])
	}
	for range 5000 {
		d.now += time.Millisecond
		d.take(Event{Kind: Tick})
		d.decide()
	}
	d.b.ReportAllocs()
	var took []time.Duration
	for d.b.Loop() {
		d.now += time.Millisecond
		d.take(Event{Kind: Tick})
		took = append(took, d.decide())
		check.AtMost(check.Must(d.b), d.starts, 0, "started a run that fits nowhere")
	}
	check.Equal(check.Must(d.b), len(d.running), running)
	report(d.b, took)
}

// report gives the median and the 90% quantile. The mean depends on how often the
// machine did something else in between.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*9/10]), "p90-ns")
}
