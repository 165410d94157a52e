package sim

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// stream returns a generator of its own for each (seed, part): the arrivals of
// one function do not change when another function is added.
func stream(seed uint64, part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, part*0x9e3779b97f4a7c15+1))
}

// gap draws inter-arrival times, in seconds, of a given mean.
type gap func(r *rand.Rand, mean float64) float64

func exponential(r *rand.Rand, mean float64) float64 { return r.ExpFloat64() * mean }

// lognormal is heavy-tailed: most gaps are short, some are very long, which
// makes bursts. sigma 1.5 gives a coefficient of variation of about 2.9.
func lognormal(r *rand.Rand, mean float64) float64 {
	const sigma = 1.5
	return mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
}

// clockwork is a clock-driven function: nearly equal gaps.
func clockwork(r *rand.Rand, mean float64) float64 { return mean * (0.95 + 0.1*r.Float64()) }

// renew appends arrivals of one function from start to horizon.
func renew(out []Arrival, r *rand.Rand, fn int, g gap, rate float64, start, horizon time.Duration) []Arrival {
	if !(rate > 0) {
		return out
	}
	mean := 1 / rate
	at := start.Seconds() + r.Float64()*g(r, mean)
	for at < horizon.Seconds() {
		out = append(out, Arrival{At: seconds(at), Function: int32(fn)})
		at += max(g(r, mean), 1e-6)
	}
	return out
}

// inOrder sorts arrivals by time, equal times by function.
func inOrder(a []Arrival) {
	sort.SliceStable(a, func(i, j int) bool {
		if a[i].At != a[j].At {
			return a[i].At < a[j].At
		}
		return a[i].Function < a[j].Function
	})
}

// seconds rounds to the microsecond, which absorbs differences in the last
// bits of floating-point functions between machines.
func seconds(s float64) time.Duration {
	return time.Duration(math.Round(s*1e6)) * time.Microsecond
}
