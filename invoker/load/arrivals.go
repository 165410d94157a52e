package load

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// Mix is a load that is drawn: Poisson arrivals, and the n-th action as popular
// as n to the power of -Zipf.
type Mix struct {
	Actions int
	Rate    float64 // calls a second, of all actions together
	Zipf    float64 // 0: all actions alike
	Count   int     // calls at most
	Seed    uint64
}

// Validate names the flag of what cannot be.
func (m Mix) Validate() error {
	switch {
	case !(m.Rate > 0 && m.Rate <= 100_000):
		return fmt.Errorf("--rate %v: want more than 0 and at most 100000 calls a second", m.Rate)
	case !(m.Zipf >= 0 && m.Zipf <= 10):
		return fmt.Errorf("--zipf %v: want 0 (all alike) to 10", m.Zipf)
	}
	return nil
}

// Arrivals draws them. The same mix gives the same calls at the same times.
func (m Mix) Arrivals() iter.Seq[Arrival] {
	shares := make([]float64, m.Actions) // running sums
	sum := 0.0
	for i := range shares {
		sum += math.Pow(float64(i+1), -m.Zipf)
		shares[i] = sum
	}
	return func(yield func(Arrival) bool) {
		random := rand.New(rand.NewPCG(m.Seed, 0))
		at := 0.0
		for range m.Count {
			at += random.ExpFloat64() / m.Rate
			if at > math.MaxInt64/1e9 {
				return
			}
			pick := sort.SearchFloat64s(shares, random.Float64()*sum)
			if !yield(Arrival{time.Duration(at * 1e9), min(pick, m.Actions-1)}) {
				return
			}
		}
	}
}
