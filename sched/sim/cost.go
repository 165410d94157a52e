package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// costFigure measures what one activation costs its policy against the number
// of backlogged flows.
func costFigure(clock Clock) figure {
	f := figure{name: "cost", title: "Cost of enqueue, next and done of one activation, where this was drawn", x: "backlogged flows", y: "microseconds", logX: true}
	x := []float64{10, 100, 1000, 10_000, 100_000}
	for _, policy := range []string{mqfq, plus, "fcfs", "paella"} {
		f.curves = append(f.curves, curve{policy, plain, nil, func([][]*Result) ([]float64, []Spread) {
			var y []Spread
			for _, n := range x {
				y = append(y, Spread{Median: decisionCost(policy, int(n), clock)})
			}
			return x, y
		}})
	}
	return f
}

// decisionCost returns microseconds per activation with n backlogged flows:
// the best of many short rounds, which the machine's other work disturbs least.
func decisionCost(policy string, n int, clock Clock) float64 {
	cfg, _ := sched.Defaults(policy)
	cfg.MaxFlows = max(cfg.MaxFlows, n)
	s, err := sched.New(policy, cfg, nil)
	if err != nil {
		panic(fmt.Sprintf("sim: the defaults of %s: %v", policy, err))
	}
	s.AddDevice(0, 0, 2)
	flows := make([]sched.FlowID, n)
	id := uint64(0)
	for i := range flows {
		flows[i] = sched.FlowID{Namespace: "cost", Function: fmt.Sprint("f", i)}
		for range 2 {
			s.Enqueue(0, sched.Invocation{ID: id, Flow: flows[i]})
			id++
		}
	}
	const batch, rounds = 2000, 100
	best, now := math.Inf(1), time.Duration(0)
	for round := range rounds {
		start := clock.read()
		for k := range batch {
			now += time.Millisecond
			s.Enqueue(now, sched.Invocation{ID: id, Flow: flows[(round*batch+k)*7919%n]})
			id++
			if c, ok := s.Next(now); ok {
				s.Done(now, c.Invocation, sched.Usage{Service: time.Duration(k%7+1) * time.Millisecond})
			}
		}
		best = min(best, (clock.read()-start).Seconds()*1e6/batch)
	}
	return best
}
