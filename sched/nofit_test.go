package sched

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkNothingFits is one call of Next when no flow fits on any device.
func BenchmarkNothingFits(b *testing.B) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus"} {
		for _, flows := range []int{10_000, 100_000} {
			for _, devices := range []int{8, 64} {
				b.Run(fmt.Sprintf("%s/%d/%d", policy, flows, devices), func(b *testing.B) {
					s := newScheduler(b, policy, picky{func(FlowID, int) bool { return false }}, func(c *Config) { c.MaxFlows = 2 * flows })
					for d := range devices {
						s.AddDevice(0, d, 2)
					}
					for i := range flows {
						s.Enqueue(0, Invocation{ID: uint64(i), Flow: FlowID{fmt.Sprint("ns", i%100), fmt.Sprint("f", i)}})
					}
					s.Next(0)
					b.ReportAllocs()
					var took []time.Duration
					for b.Loop() {
						began := time.Now()
						_, ok := s.Next(0)
						took = append(took, time.Since(began))
						if ok {
							b.Fatal("granted what fits nowhere")
						}
					}
					reportQuantiles(b, took)
				})
			}
		}
	}
}
