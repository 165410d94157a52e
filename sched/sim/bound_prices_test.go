package sim

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

// TestQueueingIsBelowTheOptimum holds the bound to the optimum that brute force
// finds, of some hundred small cases (thousands with GPUWHISK_LONG=1), and so every set of prices: the bound must
// not hang on those that the search ends with.
func TestQueueingIsBelowTheOptimum(t *testing.T) {
	onlyCores(t)
	t.Parallel()
	cases := uint64(300)
	if os.Getenv("GPUWHISK_LONG") == "1" {
		cases = 2000
	}
	tight := 0
	for seed := range cases {
		r := rand.New(rand.NewPCG(seed, 11))
		w, server := small(r, 1+r.IntN(4))
		if seed%2 == 0 { // all at once: what is near overload
			for i := range w.Arrivals {
				w.Arrivals[i].At /= 8
			}
		}
		p := server(params(t, mqfq))
		p.Warmup, p.Interference = 0, []float64{1}
		b := newBounded(w, p)
		optimum := everyPlan(b, nil, make([]spot, min(p.Pool.Size*p.Devices, 4)), 0)
		if got := LowerBound(w, p) * float64(len(b.calls)) / 1000; got > optimum+1e-6 {
			t.Fatalf("seed %d: the lower bound %v is above the optimum %v", seed, got, optimum)
		}
		b.sharing()
		got := b.queueing()
		if got > optimum+1e-6 {
			t.Fatalf("seed %d: %v is above the optimum %v", seed, got, optimum)
		}
		if got > 0.95*optimum {
			tight++
		}
		m := newMarket(b)
		for range 3 {
			scale, blocks := 3*r.Float64(), 1+r.IntN(40)
			for i := range m.prices {
				if i%blocks == 0 || i == 0 {
					m.prices[i] = scale * r.Float64()
				} else {
					m.prices[i] = m.prices[i-1]
				}
			}
			if any := m.try(m.prices); any > optimum+1e-6 {
				t.Fatalf("seed %d: prices give %v, above the optimum %v", seed, any, optimum)
			}
		}
	}
	if tight < int(cases)/10 {
		t.Errorf("only %d of %d cases come within 5%% of the optimum", tight, cases)
	}
}

// TestQueueingCountsWhatStartsDelay is a server that cannot do what is asked of
// it: what is left out by the bound by sharing is what its starts cost others.
func TestQueueingCountsWhatStartsDelay(t *testing.T) {
	fns := []Function{{Name: "a", Warm: second, Cold: 11 * second}, {Name: "b", Warm: second, Cold: 11 * second}}
	at := map[string][]float64{}
	for i := range 60 {
		at["a"], at["b"] = append(at["a"], 2*float64(i)), append(at["b"], 2*float64(i)+1)
	}
	w := calls(fns, at)
	for places, least := range map[int]float64{2: 1.5, 1: 1.8} {
		b := newBounded(w, oneByOne(t, places))
		sharing, queueing := b.sharing(), b.queueing()
		if queueing < least*sharing {
			t.Errorf("%d places: %.0f s, and %.0f s by sharing: less than %v times", places, queueing, sharing, least)
		}
	}
}

// TestIdle has the weight of tokens that load no device at the corners of what
// a device can do.
func TestIdle(t *testing.T) {
	for name, c := range map[string]struct {
		slowdown []float64
		tokens   int
		want     float64
	}{
		"one token":          {[]float64{1}, 1, 1},
		"two without loss":   {[]float64{1}, 2, 1},
		"two, 1.54 together": {[]float64{1, 1.3}, 2, 2/1.3 - 1},
		"a third is no use":  {[]float64{1, 1.3, 2.1}, 3, 0},
		"a second is no use": {[]float64{1, 2}, 2, 0},
	} {
		p := oneByOne(t, 2)
		p.Interference, p.Tokens.Max = c.slowdown, c.tokens
		if got := idle(p); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestLeastColdAgreesWithBruteForce tries every container that could go.
func TestLeastColdAgreesWithBruteForce(t *testing.T) {
	var fewest func(fns []int32, kept []int32, places int) int
	fewest = func(fns, kept []int32, places int) int {
		switch {
		case len(fns) == 0:
			return 0
		case slices.Contains(kept, fns[0]):
			return fewest(fns[1:], kept, places)
		case len(kept) < places:
			return 1 + fewest(fns[1:], append(slices.Clone(kept), fns[0]), places)
		}
		best := math.MaxInt
		for i := range kept {
			next := slices.Clone(kept)
			next[i] = fns[0]
			best = min(best, 1+fewest(fns[1:], next, places))
		}
		return best
	}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		fns := make([]int32, r.IntN(14))
		for i := range fns {
			fns[i] = int32(r.IntN(5))
		}
		places := 1 + r.IntN(4)
		if got, want := leastCold(fns, 5, places), fewest(fns, nil, places); got != want {
			t.Fatalf("seed %d, %v in %d places: %d, want %d", seed, fns, places, got, want)
		}
	}
}

// TestBoundIsComputedOnce compares a source's bound with that of a run, for
// servers that differ and policies that do not.
func TestBoundIsComputedOnce(t *testing.T) {
	t.Parallel()
	s := DefaultSpec()
	s.Duration = 2 * time.Minute
	source := s.Source()
	for _, policy := range []string{mqfq, "fcfs", "sfq", "naive"} {
		p := params(t, policy)
		w, err := source.Workload(3)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := source.lowerBound(3, p), LowerBound(w, p); got != want {
			t.Errorf("%s: %v, want %v", policy, got, want)
		}
	}
	kept := 0
	source.made[3].bounds.Range(func(any, any) bool { kept++; return true })
	if kept != 3 {
		t.Errorf("%d bounds were computed for three servers", kept)
	}
}
