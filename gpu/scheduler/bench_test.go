package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// BenchmarkEvent measures the cost of one event from Take to the end of Ready, over warm runs
// of many functions on eight devices: submitted, answered, memory reported, ended, left. The
// figure is ns/event. Allocations are per run.
func BenchmarkEvent(b *testing.B) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus"} {
		for _, flows := range []int{10, 1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/flows=%d", policy, flows), func(b *testing.B) { benchmarkEvent(b, policy, flows) })
		}
	}
}

func benchmarkEvent(b *testing.B, policy string, flows int) {
	c := config(policy, 8)
	c.Sched.MaxFlows = 1_000_000
	l, err := New(c)
	check.NoError(b, err)
	fns := make([]Function, flows)
	for i := range fns {
		name := fmt.Sprint("f", i)
		fns[i] = Function{Flow: sched.FlowID{Namespace: "n", Function: name}, Key: name, Memory: 100 << 20, Weight: 1}
	}
	now, invocation, events := time.Duration(0), uint64(0), 0
	var running []Order
	take := func(e Event) {
		now += time.Microsecond
		e.At = now
		l.Take(e)
		events++
		for _, o := range l.Ready() {
			switch o.Do {
			case Start:
				running = append(running, o)
			case Remove:
				l.Take(Event{At: now, Kind: Removed, Container: o.Container})
			}
		}
	}
	once := func(f *Function) {
		invocation++
		take(Event{Kind: Submitted, Invocation: invocation, Function: f})
		for len(running) > 0 {
			o := running[0]
			running = running[:copy(running, running[1:])]
			take(Event{Kind: Answered, Invocation: o.Invocation})
			take(Event{Kind: MemoryReported, Container: o.Container, PID: 1, Usage: gpu.Usage{Allocated: 1 << 20, Resident: 1 << 20}})
			take(Event{Kind: Ended, Invocation: o.Invocation, Keep: true, Ran: time.Millisecond})
			take(Event{Kind: Left, Invocation: o.Invocation, Keep: true})
		}
	}
	for i := range fns {
		once(&fns[i])
	}
	hot := fns[len(fns)-min(len(fns), 24):] // whose containers fit a pool: all is warm
	for i := range hot {
		once(&hot[i])
	}
	events = 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		once(&hot[i%len(hot)])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
}
