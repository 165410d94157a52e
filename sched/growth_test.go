package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// growthSizes are the numbers of flows whose costs are compared.
var growthSizes = []int{1_000, 10_000, 100_000}

// BenchmarkGrowth measures enqueue + next + done at growing numbers of flows in
// turns, a short chunk each, so that what else the machine does falls on all of
// them alike: the ratios mean something where the times do not. An operation is
// one chunk of every size.
//
//	even: one item a flow is queued, so that flows come and go at every size
//	deep: 100,000 items are queued over all flows, whatever their number
func BenchmarkGrowth(b *testing.B) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus"} {
		b.Run(policy+"/even", func(b *testing.B) {
			benchmarkGrowth(b, policy, func(flows int) int { return flows })
		})
		b.Run(policy+"/deep", func(b *testing.B) {
			benchmarkGrowth(b, policy, func(int) int { return growthSizes[len(growthSizes)-1] })
		})
	}
}

func benchmarkGrowth(b *testing.B, policy string, queued func(flows int) int) {
	loads := make([]*load, len(growthSizes))
	for i, flows := range growthSizes {
		loads[i] = newLoad(b, policy, flows, queued(flows))
		for range 4 * flows {
			loads[i].step()
		}
	}
	b.ResetTimer()
	took := make([][]float64, len(loads))
	for range b.N {
		for i, l := range loads {
			took[i] = append(took[i], l.chunk())
		}
	}
	b.StopTimer()
	for i, flows := range growthSizes {
		b.ReportMetric(undisturbed(took[i]), fmt.Sprintf("ns@%d", flows))
		if i > 0 {
			b.ReportMetric(undisturbed(took[i])/undisturbed(took[0]), fmt.Sprintf("x@%d", flows))
		}
	}
}

// chunk is the mean time of a step in ns. The names that arrive are made
// beforehand: an activation brings its own, just read from the wire.
func (l *load) chunk() float64 {
	const steps = 256
	var names [steps]FlowID
	for i := range names {
		f := l.flows[l.rng.IntN(len(l.flows))]
		names[i] = FlowID{strings.Clone(f.Namespace), strings.Clone(f.Function)}
	}
	start := time.Now()
	for i := range names {
		l.stepWith(names[i])
	}
	return float64(time.Since(start)) / steps
}

// undisturbed is the lowest twentieth: a chunk that was interrupted, or found its
// memory pushed out of the caches, says something of the neighbours only.
func undisturbed(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	return s[len(s)/20]
}
