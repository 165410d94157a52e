package scheduler

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// warmUp is the number of decisions before a benchmark.
const warmUp = 500

// cpu is the CPU time of this thread, which does not depend on the other load of the machine as
// much as the time of the clock does.
func cpu() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkDecision measures one decision, a call of Ready, with 10,000 functions that all
// have queued work. The events before the call are not timed.
//
//	cold:   a token is free, a run is chosen, an idle container is removed and a new
//	        one ordered
//	warm:   a token is free, a run is chosen, and it starts: one namespace
//	        has so much weight that its functions keep their containers
//	memory: a token of every device is free, and no function's memory fits beside
//	        the running ones
//	beyond: as memory, but small functions run beside, beyond the window
//	host:   as memory, but host memory is short
//	claim:  every function is beyond the window and lacks only host memory, and no
//	        container may be removed for it; also with 1,000 functions
//
// Goal: 1 ms of CPU with 8 devices.
func BenchmarkDecision(b *testing.B) {
	for _, p := range sched.Policies() {
		for _, devices := range []int{8, 64} {
			name := func(what string) string { return fmt.Sprintf("%s/%s/devices=%d", p.Name, what, devices) }
			b.Run(name("cold"), func(b *testing.B) { benchmarkStart(b, p.Name, devices, false) })
			b.Run(name("warm"), func(b *testing.B) { benchmarkStart(b, p.Name, devices, true) })
			b.Run(name("memory"), func(b *testing.B) { benchmarkMemory(b, p.Name, devices) })
			b.Run(name("beyond"), func(b *testing.B) { benchmarkBeyond(b, p.Name, devices) })
			b.Run(name("host"), func(b *testing.B) { benchmarkHost(b, p.Name, devices) })
			b.Run(name("claim/flows=1000"), func(b *testing.B) { benchmarkClaim(b, p.Name, devices, 1_000) })
			b.Run(name("claim/flows=10000"), func(b *testing.B) { benchmarkClaim(b, p.Name, devices, 10_000) })
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
	acks       []Event // of orders that are carried out at once
	starts     int
	warm       int
}

// favoured is the namespace of much weight.
const favoured = "favoured"

func newDecider(b *testing.B, policy string, devices, flows int, memory int64) *decider {
	runtime.LockOSThread() // for cpu; the thread ends with the goroutine of the benchmark
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
	began := cpu()
	orders := d.l.Ready()
	took := cpu() - began
	d.obey(orders)
	return took
}

// obey follows orders.
func (d *decider) obey(orders []Order) {
	d.starts, d.warm = 0, 0
	d.acks = d.acks[:0]
	for _, o := range orders {
		switch o.Do {
		case Start:
			d.starts++
			if o.Start.Warm() {
				d.warm++
			}
			d.running = append(d.running, o)
		case Remove:
			d.acks = append(d.acks, Event{Kind: Removed, Container: o.Container})
		case Move:
			u := gpu.Usage{Allocated: o.Footprint, Resident: o.Footprint}
			if o.Move == gpu.Evict {
				u.Resident = 0
			}
			d.acks = append(d.acks, Event{Kind: MemoryReported, Container: o.Container, PID: 1, Usage: u},
				Event{Kind: Moved, Container: o.Container, Epoch: o.Epoch, Bytes: o.Bytes, OK: true})
		}
	}
	for _, e := range d.acks {
		d.take(e)
	}
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
	for i := range warmUp {
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
	d.occupy(devices)
	d.nothing(devices)
}

// occupy starts a run on each device that leaves no room for the other functions, whose needs
// differ a little.
func (d *decider) occupy(devices int) {
	for n := range devices {
		large := Function{Flow: sched.FlowID{Namespace: "n", Function: fmt.Sprint("large", n)}, Memory: 12 * gib, Weight: 1}
		d.submit(&large)
	}
	d.decide()
	for i := range d.fns {
		d.fns[i].Memory += int64(i*7919%1000) << 20
	}
}

func benchmarkBeyond(b *testing.B, policy string, devices int) {
	d := newDecider(b, policy, devices, 10_000, 8*gib)
	d.occupy(devices)
	large := slices.Clone(d.running)
	for i := range d.fns {
		d.submit(&d.fns[i])
	}
	small := make([]Function, 24)
	for i := range small {
		small[i] = Function{Flow: sched.FlowID{Namespace: "small", Function: fmt.Sprint("small", i)}, Memory: 100 << 20, Weight: 1}
		d.submit(&small[i])
	}
	d.running = d.running[:0]
	d.decide()
	began := 0
	once := func(i int) time.Duration {
		d.now += 20 * time.Second
		if len(d.running) > 0 { // else all wait for their containers
			d.end()
		}
		d.submit(&small[i*7919%len(small)])
		took := d.decide()
		began += d.starts
		return took
	}
	for i := range warmUp {
		once(i)
	}
	b.ReportAllocs()
	began = 0
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		took = append(took, once(i))
	}
	check.Equal(check.Must(b), len(large), devices)
	report(b, took)
	b.ReportMetric(float64(began)/float64(b.N), "starts/decision")
}

// BenchmarkBacklogEvents measures one event with its orders, while 10,000 functions have queued work
// on 8 devices with containers: the median of the CPU time for each kind of event.
//
// Goal: 1 ms. The status of all 10,000 functions takes longer.
func BenchmarkBacklogEvents(b *testing.B) {
	for _, policy := range sched.PolicyNames() {
		b.Run(policy, func(b *testing.B) { benchmarkBacklog(b, policy) })
	}
}

func benchmarkBacklog(b *testing.B, policy string) {
	const devices = 8
	d := newDecider(b, policy, devices, 10_000, 100<<20)
	for i := range d.fns {
		d.submit(&d.fns[i])
		d.submit(&d.fns[i])
	}
	d.decide()
	took := map[string][]time.Duration{}
	timed := func(name string, do func()) {
		began := cpu()
		do()
		took[name] = append(took[name], cpu()-began)
	}
	event := func(e Event) {
		d.now += time.Microsecond
		e.At = d.now
		var orders []Order
		timed(e.Kind.String(), func() {
			d.l.Take(e)
			orders = d.l.Ready()
		})
		d.obey(orders)
	}
	once := func(i int) {
		o := d.running[0]
		d.running = d.running[:copy(d.running, d.running[1:])]
		d.now += 100 * time.Millisecond
		event(Event{Kind: Answered, Invocation: o.Invocation})
		event(Event{Kind: MemoryReported, Container: o.Container, PID: 1, Usage: gpu.Usage{Allocated: 1 << 20, Resident: 1 << 20}})
		event(Event{Kind: Ended, Invocation: o.Invocation, Keep: true, Ran: 100 * time.Millisecond})
		event(Event{Kind: Left, Invocation: o.Invocation, Keep: true, Ran: 100 * time.Millisecond})
		d.invocation++
		f := &d.fns[i*7919%len(d.fns)]
		event(Event{Kind: Submitted, Invocation: d.invocation, Function: f})
		event(Event{Kind: Tick})
		timed("explain", func() { d.l.Explain(f.Flow) })
		timed("stats", func() { d.l.Stats() })
		if i%20 == 0 {
			event(Event{Kind: DeviceLost, Device: i % devices, Why: "a benchmark"})
			event(Event{Kind: DeviceBack, Device: i % devices})
			timed("status of all functions", func() {
				explain := d.l.Explainer()
				for _, id := range d.l.Flows() {
					explain(id)
				}
			})
		}
	}
	for i := range warmUp {
		once(i)
	}
	clear(took)
	for i := 0; b.Loop(); i++ {
		once(i)
	}
	for name, took := range took {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2]), strings.ReplaceAll(name, " ", "-")+"-p50-ns")
	}
}

func benchmarkHost(b *testing.B, policy string, devices int) {
	d := newDecider(b, policy, devices, 10_000, 100<<20)
	d.take(Event{Kind: HostReported, Host: HostMemory{Free: 100}})
	d.nothing(0)
}

// benchmarkClaim has functions of a namespace that leads by more than the window, and others that
// lack device memory.
func benchmarkClaim(b *testing.B, policy string, devices, flows int) {
	d := newDecider(b, policy, devices, flows, 100<<20)
	d.occupy(devices)
	d.submit(&Function{Flow: sched.FlowID{Namespace: "small", Function: "first"}, HostMB: 256, Memory: 100 << 20})
	d.decide()
	d.now += time.Hour
	first := d.running[devices]
	d.running = d.running[:devices]
	d.take(Event{Kind: Left, Invocation: first.Invocation})
	d.submit(&Function{Flow: sched.FlowID{Namespace: "n", Function: "large"}, Memory: 12 * gib, Weight: 1})
	d.take(Event{Kind: HostReported})
	d.take(Event{Kind: HostGrown, Container: d.running[0].Container, Bytes: 256})
	for i := range d.fns {
		d.fns[i].Flow.Namespace, d.fns[i].Memory = "small", 100<<20
		d.submit(&d.fns[i])
	}
	once := func() time.Duration {
		d.now += time.Millisecond
		d.take(Event{Kind: HostReported})
		return d.decide()
	}
	for range warmUp {
		once()
	}
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		took = append(took, once())
		check.AtMost(check.Must(b), d.starts, 0, "started a run without host memory")
	}
	check.Equal(check.Must(b), len(d.running), devices)
	report(b, took)
}

// nothing makes decisions in which none of 10,000 functions can start beside the running ones.
func (d *decider) nothing(running int) {
	for i := range d.fns {
		d.submit(&d.fns[i])
	}
	for range warmUp {
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

// report gives the least, the median and the 90% quantile. On a machine with other load even
// CPU time is up to twice the least.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[0]), "min-ns")
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*9/10]), "p90-ns")
}
