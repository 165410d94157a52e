package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// zipf is the paper's first workload class: copies of its functions in random
// order of popularity, rates falling as rank^-s, exponential gaps, an open
// loop. The rates are scaled so that the offered load is what was asked for.
func zipf(s Spec) (*Workload, error) {
	fns, rates := zipfMix(s, s.offered())
	w := &Workload{Name: "zipf", Functions: fns}
	for i, rate := range rates {
		w.Arrivals = renew(w.Arrivals, stream(s.Seed, uint64(i+1)), i, exponential, rate, 0, s.Duration)
	}
	return w, nil
}

// zipfMix returns functions and their rates at an offered load.
func zipfMix(s Spec, load float64) ([]Function, []float64) {
	fns := copies(s.Functions)
	if s.Large {
		fns = large(s.Functions)
	}
	rank := stream(s.Seed, 0).Perm(len(fns))
	rates := make([]float64, len(fns))
	demand := 0.0
	for i := range fns {
		rates[i] = math.Pow(float64(rank[i]+1), -s.Zipf)
		demand += rates[i] * fns[i].Warm.Seconds()
	}
	for i := range rates {
		rates[i] *= load / demand
	}
	return fns, rates
}

// large returns copies of those functions alone whose runs dwarf the
// transfer of their memory. The paper's bound of 5 s of warm time leaves
// nothing of its own Table 1, so ours is 1.9 s.
func large(n int) []Function {
	var base []Function
	for _, f := range catalogue {
		if f.Warm >= 1900*time.Millisecond {
			base = append(base, f)
		}
	}
	out := make([]Function, n)
	for i := range out {
		out[i] = base[i%len(base)]
		out[i].Name += "-" + string(rune('a'+i/len(base)%26))
		if i/len(base) >= 26 {
			out[i].Name += "x"
		}
	}
	return out
}

// fourCopies is the fairness experiment: two functions from the start, two
// more from the middle on; of each pair one is called twice as often. The
// rates keep every one of them backlogged once all four are there.
func fourCopies(s Spec) (*Workload, error) {
	w := &Workload{Name: "copies"}
	base := named("fft", "fft")
	low := 1 / (base.Warm.Seconds() * 0.8) // calls per second of a "Low" gap
	for i, c := range []struct {
		name  string
		rate  float64
		start time.Duration
	}{
		{"low-1", low, 0},
		{"high-1", low / 2, 0},
		{"low-2", low, s.Duration / 2},
		{"high-2", low / 2, s.Duration / 2},
	} {
		w.Functions = append(w.Functions, named("fft", c.name))
		w.Arrivals = renew(w.Arrivals, stream(s.Seed, uint64(i+1)), i, exponential, c.rate, c.start, s.Duration)
	}
	return w, nil
}

// burst is a calm zipf background and, every two minutes, forty calls of one
// function within two seconds, each time of the next function.
func burst(s Spec) (*Workload, error) {
	fns, rates := zipfMix(s, s.offered()/2)
	w := &Workload{Name: "burst", Functions: fns}
	for i, rate := range rates {
		w.Arrivals = renew(w.Arrivals, stream(s.Seed, uint64(i+1)), i, exponential, rate, 0, s.Duration)
	}
	r := stream(s.Seed, 1<<32)
	for k, at := 0, time.Minute; at < s.Duration; k, at = k+1, at+2*time.Minute {
		for range 40 {
			w.Arrivals = append(w.Arrivals, Arrival{At: within(r, at, 2*time.Second, s.Duration), Function: int32(k % len(fns))})
		}
	}
	return w, nil
}

// within draws a time in [at, at+width), kept below the horizon.
func within(r *rand.Rand, at, width, horizon time.Duration) time.Duration {
	t := at + seconds(r.Float64()*width.Seconds())
	return min(t, horizon-time.Microsecond)
}

// diurnal thins a zipf workload of 1.8 times the load so that it swings around
// the load in one full period.
func diurnal(s Spec) (*Workload, error) {
	fns, rates := zipfMix(s, s.offered()*1.8)
	w := &Workload{Name: "diurnal", Functions: fns}
	for i, rate := range rates {
		r := stream(s.Seed, uint64(i+1))
		for _, a := range renew(nil, r, i, exponential, rate, 0, s.Duration) {
			phase := a.At.Seconds() / s.Duration.Seconds() * 2 * math.Pi
			if r.Float64() < (1-0.8*math.Cos(phase))/1.8 {
				w.Arrivals = append(w.Arrivals, a)
			}
		}
	}
	return w, nil
}
