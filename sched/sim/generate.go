package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// call adds a function that is called at random at a rate from start on, with
// the stream of a part.
func (s Spec) call(w *Workload, f Function, part uint64, rate float64, start time.Duration) {
	i := len(w.Functions)
	w.Functions = append(w.Functions, f)
	w.Arrivals = renew(w.Arrivals, stream(s.Seed, part), i, exponential, rate, start, s.Duration)
}

// inOrder sorts arrivals by time, equal times by function.
func inOrder(a []Arrival) {
	slices.SortStableFunc(a, func(x, y Arrival) int {
		return cmp.Or(cmp.Compare(x.At, y.At), cmp.Compare(x.Function, y.Function))
	})
}

// seconds rounds to the microsecond, which absorbs differences in the last
// bits of floating-point functions between machines.
func seconds(s float64) time.Duration {
	return time.Duration(math.Round(s*1e6)) * time.Microsecond
}

// zipf is the paper's first workload class: copies of its functions in random
// order of popularity, rates falling as rank^-s, exponential gaps, an open
// loop. The rates are scaled so that the offered load is what was asked for.
func zipf(s Spec) (*Workload, error) { return zipfAt(s, s.offered()), nil }

func zipfAt(s Spec, load float64) *Workload {
	w := &Workload{}
	fns, rates := zipfMix(s, load)
	for i, rate := range rates {
		s.call(w, fns[i], uint64(i+1), rate, 0)
	}
	return w
}

// zipfMix returns functions and their rates at an offered load.
func zipfMix(s Spec, load float64) ([]Function, []float64) {
	fns := copies(catalogue[:], s.Count)
	if s.Large {
		fns = copies(large(), s.Count)
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

// fourCopies is the fairness experiment: two functions from the start, two
// more from the middle on; of each pair one is called twice as often. The
// rates keep every one of them backlogged once all four are there.
func fourCopies(s Spec) (*Workload, error) {
	w := &Workload{}
	low := 1 / (named("fft", "").Warm.Seconds() * 0.8) // calls per second of a "Low" gap
	s.call(w, named("fft", "low-1"), 1, low, 0)
	s.call(w, named("fft", "high-1"), 2, low/2, 0)
	s.call(w, named("fft", "low-2"), 3, low, s.Duration/2)
	s.call(w, named("fft", "high-2"), 4, low/2, s.Duration/2)
	return w, nil
}

// burst is a calm zipf background and, every two minutes, forty calls of one
// function within two seconds, each time of the next function.
func burst(s Spec) (*Workload, error) {
	w := zipfAt(s, s.offered()/2)
	r := stream(s.Seed, 1<<32)
	for k, at := 0, time.Minute; at < s.Duration; k, at = k+1, at+2*time.Minute {
		for range 40 {
			t := at + seconds(r.Float64()*2)
			w.Arrivals = append(w.Arrivals, Arrival{At: min(t, s.Duration-time.Microsecond), Function: int32(k % len(w.Functions))})
		}
	}
	return w, nil
}

// diurnal thins a zipf workload of 1.8 times the load so that it swings around
// the load in one full period.
func diurnal(s Spec) (*Workload, error) {
	fns, rates := zipfMix(s, s.offered()*1.8)
	w := &Workload{Functions: fns}
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

// crowd is how many functions share the load of the rare class.
const crowd = 100

// rare is a crowd of functions that share the load evenly, and a last one that
// is called about once a minute: under a load above 1 it finds work waiting in
// every other flow.
func rare(s Spec) (*Workload, error) {
	w := &Workload{}
	f := Function{Warm: 100 * time.Millisecond, Cold: 1100 * time.Millisecond, Memory: 64 * mib}
	for i := range crowd {
		f.Name = fmt.Sprintf("crowd-%02d", i)
		s.call(w, f, uint64(i+1), s.offered()/f.Warm.Seconds()/crowd, 0)
	}
	f.Name = "rare"
	s.call(w, f, crowd+1, 1.0/60, 0)
	return w, nil
}

// hog floods: one function asks for the whole device on its own, over the
// normal traffic of the zipf class.
func hog(s Spec) (*Workload, error) {
	w := zipfAt(s, s.offered())
	attacker := named("pathfinder", "hog")
	s.call(w, attacker, 1<<34, 1/attacker.Warm.Seconds(), 0)
	return w, nil
}

// tiny is a thousand functions that are each called about once an hour, so that
// none can stay warm and each counts as a flow, over eight common functions.
func tiny(s Spec) (*Workload, error) {
	few := s
	few.Count = 8
	w := zipfAt(few, s.offered())
	for k := range 1000 {
		f := Function{Name: fmt.Sprintf("tiny-%04d", k), Warm: 10 * time.Millisecond, Cold: 300 * time.Millisecond, Memory: 64 * mib}
		s.call(w, f, 1<<35+uint64(k), 1.0/3600, 0)
	}
	return w, nil
}

// liar earns a small estimate with forty short runs, then sends ten of eight
// seconds, over and over: a policy that charges by the estimate alone
// undercharges.
func liar(s Spec) (*Workload, error) {
	w := zipfAt(s, s.offered())
	i := int32(len(w.Functions))
	w.Functions = append(w.Functions, Function{Name: "liar", Warm: 20 * time.Millisecond, Cold: 2 * time.Second, Memory: gib})
	for n, at := 0, time.Duration(0); at < s.Duration; n, at = n+1, at+4*time.Second {
		a := Arrival{At: at, Function: i}
		if n%50 >= 40 {
			a.Work = 8 * time.Second
		}
		w.Arrivals = append(w.Arrivals, a)
	}
	return w, nil
}

// onOff is idle for three minutes, longer than the TTL of its flow, then
// sends a hundred calls at once: a policy that gives a returning flow the
// virtual time it left with would let it own the device.
func onOff(s Spec) (*Workload, error) {
	w := zipfAt(s, s.offered())
	i := int32(len(w.Functions))
	w.Functions = append(w.Functions, named("fft", "onoff"))
	for at := 3 * time.Minute; at < s.Duration; at += 3 * time.Minute {
		for k := range 100 {
			t := min(at+time.Duration(k)*time.Millisecond, s.Duration-time.Microsecond)
			w.Arrivals = append(w.Arrivals, Arrival{At: t, Function: i})
		}
	}
	return w, nil
}
