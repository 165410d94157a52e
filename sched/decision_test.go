package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkGrant is the call of Next that grants the one token that is free, with ten
// invocations queued for each flow. Half of the flows have a container on one device. Only
// that call is timed: it is to take 100 µs with 1,000 flows and 1 ms with 10,000.
func BenchmarkGrant(b *testing.B) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus", "fcfs"} {
		for _, flows := range []int{1_000, 10_000} {
			for _, devices := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s/flows=%d/devices=%d", policy, flows, devices), func(b *testing.B) { benchmarkGrant(b, policy, flows, devices) })
			}
		}
	}
}

// homes is a View in which a flow has a container on one device or on none, by its
// name.
type homes struct{ devices int }

func (v homes) Work(f FlowID) Work {
	digits := f.Function[len(f.Function)-2:]
	home := (int(digits[0])*10 + int(digits[1])) % (2 * v.devices)
	return &homeWork{home: home, resident: home < v.devices}
}

// homeWork is a flow of homes. Its Outlook does not go through the devices, so that the
// benchmark measures the policy and not the view.
type homeWork struct {
	home     int
	resident bool // home is a device
}

func (w *homeWork) Outlook() Outlook {
	if w.resident {
		return Outlook{Servable: true}
	}
	return Outlook{Setup: time.Second, Servable: true}
}

func (w *homeWork) Placement(device int) Placement {
	if device == w.home {
		return Placement{Start: GPUWarm, Fits: true}
	}
	return Placement{Start: Cold, Setup: time.Second, Fits: true}
}

// warmUp is the most steps before a benchmark. A step goes through all flows, so that four for
// each of 10,000 flows took minutes.
const warmUp = 2_000

func benchmarkGrant(b *testing.B, policy string, flows, devices int) {
	cfg, _ := Defaults(policy)
	cfg.MaxFlows = 10 * flows
	l := newLoadOn(b, policy, cfg, homes{devices}, devices, flows, 10*flows)
	step := func() time.Duration {
		l.end()
		l.arrive(l.flows[l.rng.IntN(flows)])
		began := time.Now()
		c, ok := l.s.Next(l.now)
		took := time.Since(began)
		if !ok { // a head waits for its own container
			l.tick()
			return 0
		}
		l.running = append(l.running, c.Invocation)
		return took
	}
	for range min(4*flows, warmUp) {
		step()
	}
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		if t := step(); t > 0 {
			took = append(took, t)
		}
	}
	reportQuantiles(b, took)
	b.ReportMetric(float64(len(took))/float64(b.N), "grants/op")
}

// reportQuantiles reports the median and the 90% quantile. The mean depends on how
// often the machine did something else in between.
func reportQuantiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*9/10]), "p90-ns")
}
