package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// oneByOne is a server of one device and token with a pool.
func oneByOne(t *testing.T, pool int) Params {
	p := params(t, mqfq)
	p.Tokens.Max, p.Pool.Size, p.ContainerStart = 1, pool, 0
	return p
}

func TestLowerBoundOfKnownCases(t *testing.T) {
	even := []Function{{Name: "a", Warm: 4 * second, Cold: 4 * second}, {Name: "b", Warm: second, Cold: second}}
	slow := []Function{{Name: "a", Warm: second, Cold: 11 * second}, {Name: "b", Warm: second, Cold: 11 * second}}
	started := oneByOne(t, 2)
	started.ContainerStart = 2 * second
	many := oneByOne(t, 2)
	many.GPUs = 8
	warmed := oneByOne(t, 2)
	warmed.Warmup = 150 * second
	naive := oneByOne(t, 2)
	naive.Pool.Size = 0
	for name, c := range map[string]struct {
		fns  []Function
		at   map[string][]float64
		p    Params
		want float64
	}{
		"the shorter goes first: (1 + 5) / 2":    {even, map[string][]float64{"a": {0}, "b": {1}}, oneByOne(t, 2), 3},
		"no run is faster than alone":            {even, map[string][]float64{"a": {0}, "b": {1}}, many, 2.5},
		"first starts are paid: (11 + 11) / 2":   {slow, map[string][]float64{"a": {0}, "b": {100}}, oneByOne(t, 2), 11},
		"and so are their containers: 13":        {slow, map[string][]float64{"a": {0}, "b": {100}}, started, 13},
		"everything else is warm: (11+11+1+1)/4": {slow, map[string][]float64{"a": {0, 200}, "b": {100, 300}}, oneByOne(t, 1), 6},
		"the work left from the warm-up is free": {slow, map[string][]float64{"a": {0, 200}, "b": {100, 300}}, warmed, 1},
		"first starts are waited for: (11+21)/2": {slow, map[string][]float64{"a": {0}, "b": {1}}, oneByOne(t, 2), (11 + 21) / 2.0},
		"without a pool all are cold":            {slow, map[string][]float64{"a": {0, 200}, "b": {100, 300}}, naive, 11},
	} {
		near(t, LowerBound(calls(c.fns, c.at), c.p), c.want, name)
	}
}

// small makes a random workload of few functions, and a server for it.
func small(r *rand.Rand, calls int) (*Workload, func(Params) Params) {
	w := &Workload{Name: "small", Horizon: time.Hour}
	for i := range 1 + r.IntN(4) {
		warm := time.Duration(1+r.IntN(4000)) * time.Millisecond
		w.Functions = append(w.Functions, Function{
			Name: fmt.Sprintf("f%d", i), Warm: warm, Cold: warm + time.Duration(r.IntN(12_000))*time.Millisecond,
			Memory: int64(1+r.IntN(4)) * gib,
		})
	}
	uneven := r.IntN(3) == 0
	span := float64(calls) * (0.5 + 6*r.Float64())
	for range calls {
		a := Arrival{At: seconds(span * r.Float64()), Function: int32(r.IntN(len(w.Functions)))}
		if uneven {
			a.Work = time.Duration(1+r.IntN(5000)) * time.Millisecond
		}
		w.Arrivals = append(w.Arrivals, a)
	}
	inOrder(w.Arrivals)
	devices, tokens, pool := 1+r.IntN(2), 1+r.IntN(3), 1+r.IntN(4)
	start := time.Duration(r.IntN(3000)) * time.Millisecond
	var warmup time.Duration
	if r.IntN(4) == 0 {
		warmup = w.Arrivals[calls/2].At
	}
	return w, func(p Params) Params {
		p.GPUs, p.Pool.Size, p.ContainerStart, p.Warmup = devices, pool, start, warmup
		info, _ := policyNamed(p.Policy)
		if !info.OneToken {
			p.Tokens.Max = tokens
		}
		if info.NoPool {
			p.Pool.Size = 0
		}
		return p
	}
}

// TestNoPolicyBeatsTheLowerBound compares the lower bound with the results of every policy on
// random workloads. Some workloads are small enough to compute the optimum.
func TestNoPolicyBeatsTheLowerBound(t *testing.T) {
	onlyCores(t)
	t.Parallel()
	tight := 0
	for seed := range uint64(30) {
		for _, n := range []int{1, 3, 6, 40} {
			w, server := small(rand.New(rand.NewPCG(seed, uint64(n))), n)
			for _, policy := range PolicyNames() {
				p := server(params(t, policy))
				p.Verify = false
				r := run(t, w, p)
				if r.Unfinished == 0 && r.Latency.Mean < r.LowerBound-0.001 {
					t.Errorf("seed %d, %d calls, %s: mean %v ms beats the lower bound %v", seed, n, policy, r.Latency.Mean, r.LowerBound)
				}
				if r.Latency.Mean < 1.001*r.LowerBound {
					tight++
				}
			}
		}
	}
	if tight < 30 {
		t.Errorf("only %d runs came within a thousandth of the bound: it is hardly one", tight)
	}
}
