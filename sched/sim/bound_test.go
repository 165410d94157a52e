package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// oneByOne is a server of one device and token with places for containers.
func oneByOne(t *testing.T, places int) Params {
	p := params(t, mqfq)
	p.Tokens.Max, p.Pool.Size, p.ContainerStart = 1, places, 0
	return p
}

func TestLowerBoundOfKnownCases(t *testing.T) {
	even := []Function{{Name: "a", Warm: 4 * second, Cold: 4 * second}, {Name: "b", Warm: second, Cold: second}}
	slow := []Function{{Name: "a", Warm: second, Cold: 11 * second}, {Name: "b", Warm: second, Cold: 11 * second}}
	started := oneByOne(t, 2)
	started.ContainerStart = 2 * second
	many := oneByOne(t, 2)
	many.Devices = 8
	naive := oneByOne(t, 2)
	naive.Pool.Size = 0
	for name, c := range map[string]struct {
		fns  []Function
		at   map[string][]float64
		p    Params
		want float64
	}{
		"b is waited for: (1 + 6) / 2":             {even, map[string][]float64{"a": {0}, "b": {1}}, oneByOne(t, 2), 3.5},
		"nobody runs faster than alone":            {even, map[string][]float64{"a": {0}, "b": {1}}, many, 2.5},
		"first starts are paid: (11 + 11) / 2":     {slow, map[string][]float64{"a": {0}, "b": {100}}, oneByOne(t, 2), 11},
		"and so are their containers: 13":          {slow, map[string][]float64{"a": {0}, "b": {100}}, started, 13},
		"two places keep both: (11+11+1+1) / 4":    {slow, map[string][]float64{"a": {0, 200}, "b": {100, 300}}, oneByOne(t, 2), 6},
		"one place is fought for: 11 each":         {slow, map[string][]float64{"a": {0, 200}, "b": {100, 300}}, oneByOne(t, 1), 11},
		"waiting saves a start: (11+10.5+21.9) /3": {slow, map[string][]float64{"a": {0, 1.5}, "b": {1.1}}, oneByOne(t, 1), (11 + 10.5 + 21.9) / 3},
		"without places all are cold":              {slow, map[string][]float64{"a": {0, 200}, "b": {100, 300}}, naive, 11},
	} {
		if got := LowerBound(calls(c.fns, c.at), c.p); !near(got, c.want) {
			t.Errorf("%s: %v ms, want %v s", name, got, c.want)
		}
	}
}

// TestScarcityPricesPlaces looks at the relaxation alone: three functions are
// called in turn, each every 300 s, and a start takes 10 s.
func TestScarcityPricesPlaces(t *testing.T) {
	var fns []Function
	at := map[string][]float64{}
	for i, name := range []string{"a", "b", "c"} {
		fns = append(fns, Function{Name: name, Warm: time.Millisecond, Cold: 10*second + time.Millisecond})
		for k := range 100 {
			at[name] = append(at[name], float64(300*k+100*i))
		}
	}
	w := calls(fns, at)
	for places, want := range map[int]float64{3: 30, 2: 1000, 1: 2000} {
		// Whoever has no place starts at every call, and needs a place for that,
		// which is worth some starts of the others.
		got := newBounded(w, oneByOne(t, places)).scarcity()
		if got > 1.1*want || got < 0.99*want {
			t.Errorf("%d places: %.0f s of starts and waits, want about %.0f", places, got, want)
		}
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
	devices, tokens, places := 1+r.IntN(2), 1+r.IntN(3), 1+r.IntN(4)
	start, interferes := time.Duration(r.IntN(3000))*time.Millisecond, r.IntN(2) == 0
	var warmup time.Duration
	if r.IntN(4) == 0 {
		warmup = w.Arrivals[calls/2].At
	}
	return w, func(p Params) Params {
		p.Devices, p.Pool.Size, p.ContainerStart, p.InitInterferes, p.Warmup = devices, places, start, interferes, warmup
		if p.Policy != "sfq" {
			p.Tokens.Max = tokens
		}
		if policyInfo(p.Policy).NoPool {
			p.Pool.Size = 0
		}
		return p
	}
}

// TestNoPolicyBeatsTheLowerBound holds the bound to what every policy reaches on
// random workloads, few enough calls for the optimum and more.
func TestNoPolicyBeatsTheLowerBound(t *testing.T) {
	onlyCores(t)
	t.Parallel()
	tight := 0
	for seed := range uint64(30) {
		for _, n := range []int{1, 3, 6, 40} {
			w, server := small(rand.New(rand.NewPCG(seed, uint64(n))), n)
			source := Fixed(w)
			for _, policy := range PolicyNames() {
				p := server(params(t, policy))
				p.Verify = false
				r := runOn(t, source, p)
				if r.Unfinished == 0 && r.Latency.Mean < r.LowerBound-0.001 {
					t.Errorf("seed %d, %d calls, %s: mean %v ms beats the lower bound %v", seed, n, policy, r.Latency.Mean, r.LowerBound)
				}
				if r.Latency.Mean < 1.001*r.LowerBound {
					tight++
				}
				if policy == "fcfs" && r.Starts.Cold+r.Starts.BusyCold < r.LeastCold {
					t.Errorf("seed %d, %d calls: fcfs started %+v, fewer cold than %d", seed, n, r.Starts, r.LeastCold)
				}
			}
		}
	}
	if tight < 30 {
		t.Errorf("only %d runs came within a thousandth of the bound: it is hardly one", tight)
	}
}

// TestExactlyAgreesWithBruteForce tries every order and place, without a rule
// that leaves anything out but a fifth place for four calls, and holds the two relaxations below the optimum.
func TestExactlyAgreesWithBruteForce(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		w, server := small(r, 1+r.IntN(4))
		p := server(params(t, mqfq))
		p.Warmup = 0
		b := newBounded(w, p)
		got, ok := b.exactly()
		want := everyPlan(b, nil, make([]spot, min(p.Pool.Size*p.Devices, 4)), 0)
		if !ok || math.Abs(got-want) > 1e-6 {
			t.Fatalf("seed %d: %v (%v), brute force %v", seed, got, ok, want)
		}
		if below := b.work + b.scarcity(); below > want+1e-6 {
			t.Errorf("seed %d: the bound by places %v is above the optimum %v", seed, below, want)
		}
		p.Interference = []float64{1} // any number of runs at full speed
		if below := newBounded(w, p).sharing(); below > want+1e-6 {
			t.Errorf("seed %d: the bound by sharing %v is above the optimum %v", seed, below, want)
		}
	}
}

// everyPlan returns the least sum of latencies over all plans that go on from
// what was granted: fn of a box counts from 1, and 0 is none.
func everyPlan(b *bounded, granted []int, boxes []spot, now float64) float64 {
	best := math.Inf(1)
	for i, c := range b.calls {
		if slices.Contains(granted, i) {
			continue
		}
		for k := range boxes {
			begin := max(now, c.at, boxes[k].free)
			for busy(boxes, begin) >= b.tokens {
				begin = nextEnd(boxes, begin)
			}
			end := begin + c.work
			if boxes[k].fn != c.fn+1 {
				end += b.fns[c.fn].start
			}
			after := slices.Clone(boxes)
			after[k] = spot{fn: c.fn + 1, free: end}
			rest := 0.0
			if len(granted)+1 < len(b.calls) {
				rest = everyPlan(b, append(slices.Clone(granted), i), after, begin)
			}
			best = min(best, end-c.at+rest)
		}
	}
	return best
}

func busy(boxes []spot, at float64) (n int) {
	for _, x := range boxes {
		if x.free > at {
			n++
		}
	}
	return n
}

func nextEnd(boxes []spot, at float64) float64 {
	next := math.Inf(1)
	for _, x := range boxes {
		if x.free > at {
			next = min(next, x.free)
		}
	}
	return next
}
