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

// add adds one call of a function, before the workload's end.
func (w *Workload) add(function int, at time.Duration) {
	w.Arrivals = append(w.Arrivals, Arrival{At: min(at, w.Horizon-time.Microsecond), Function: int32(function)})
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

// zipf is the paper's first workload class: copies of its functions in random order of
// popularity, rates proportional to rank^-s, exponential gaps, an open loop. The rates are
// scaled to the requested load.
func zipf(s Spec, w *Workload) error {
	fns, rates := zipfMix(s, s.offered())
	for i, rate := range rates {
		s.call(w, fns[i], uint64(i+1), rate, 0)
	}
	return nil
}

// equal is functions with equal parts of the load, whatever their runs take.
func equal(s Spec, w *Workload) error {
	for i, f := range copies(catalogue[:], s.Count) {
		s.call(w, f, uint64(i+1), s.offered()/float64(s.Count)/f.Warm.Seconds(), 0)
	}
	return nil
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

// fourCopies is the fairness experiment: two functions from the beginning, and two more from
// the middle on. Within each pair one function is called twice as often as the other. The
// rates keep all four backlogged once they are there.
func fourCopies(s Spec, w *Workload) error {
	low := 1 / (named("fft", "").Warm.Seconds() * 0.8) // calls per second of a "Low" gap
	s.call(w, named("fft", "low-1"), 1, low, 0)
	s.call(w, named("fft", "high-1"), 2, low/2, 0)
	s.call(w, named("fft", "low-2"), 3, low, s.Duration/2)
	s.call(w, named("fft", "high-2"), 4, low/2, s.Duration/2)
	return nil
}

// burst is a calm zipf background and, every two minutes, forty calls of one
// function within two seconds, each time of the next function.
func burst(s Spec, w *Workload) error {
	s.Load /= 2
	r := stream(s.Seed, 1<<32)
	err := zipf(s, w)
	for k, at := 0, time.Minute; at < s.Duration; k, at = k+1, at+2*time.Minute {
		for range 40 {
			w.add(k%len(w.Functions), at+seconds(r.Float64()*2))
		}
	}
	return err
}

// diurnal swings around the load in one full period.
func diurnal(s Spec, w *Workload) error {
	return thinned(s, w, 1.8, func(at float64) float64 { return 1 - 0.8*math.Cos(at*2*math.Pi) })
}

// ramp rises from no load to twice the load.
func ramp(s Spec, w *Workload) error {
	return thinned(s, w, 2, func(at float64) float64 { return 2 * at })
}

// thinned is a zipf workload of most times the load, thinned so that it follows a
// share of the load over the workload's time from 0 to 1.
func thinned(s Spec, w *Workload, most float64, share func(at float64) float64) error {
	fns, rates := zipfMix(s, s.offered()*most)
	w.Functions = fns
	for i, rate := range rates {
		r := stream(s.Seed, uint64(i+1))
		for _, a := range renew(nil, r, i, exponential, rate, 0, s.Duration) {
			if r.Float64() < share(a.At.Seconds()/s.Duration.Seconds())/most {
				w.Arrivals = append(w.Arrivals, a)
			}
		}
	}
	return nil
}

// bimodal is ten functions with runs of 50 ms and ten with runs of a minute. Both
// halves ask for the same time of the device.
func bimodal(s Spec, w *Workload) error {
	for i := range 10 {
		short := Function{Name: fmt.Sprintf("short-%d", i), Warm: 50 * time.Millisecond, Cold: 3 * time.Second, Memory: gib}
		long := Function{Name: fmt.Sprintf("long-%d", i), Warm: time.Minute, Cold: 70 * time.Second, Memory: 3 * gib}
		s.call(w, short, uint64(2*i+1), s.offered()/20/short.Warm.Seconds(), 0)
		s.call(w, long, uint64(2*i+2), s.offered()/20/long.Warm.Seconds(), 0)
	}
	return nil
}

// hot is five functions with 0.7 of the load, and three hundred of all lengths that
// share the rest, so that most of their starts are cold.
func hot(s Spec, w *Workload) error {
	r := stream(s.Seed, 1<<36)
	for i := range 305 {
		f, share := catalogue[r.IntN(len(catalogue))], 0.7/5
		f.Name = fmt.Sprintf("%s-%03d", f.Name, i)
		if i >= 5 {
			share = 0.3 / 300
			init := f.Cold - f.Warm
			f.Warm = seconds(f.Warm.Seconds() * math.Exp(r.NormFloat64()))
			f.Cold = f.Warm + init
		}
		s.call(w, f, uint64(i+1), s.offered()*share/f.Warm.Seconds(), 0)
	}
	return nil
}

// thrice is eight functions with 0.7 of the load, and for the rest new functions that
// are called three times within half a minute and never again.
func thrice(s Spec, w *Workload) error {
	for i, f := range catalogue {
		s.call(w, f, uint64(i+1), 0.7*s.offered()/float64(len(catalogue))/f.Warm.Seconds(), 0)
	}
	r := stream(s.Seed, 1<<37)
	for left := 0.3 * s.offered() * s.Duration.Seconds(); left > 0; {
		f, i := catalogue[r.IntN(len(catalogue))], len(w.Functions)
		f.Name = fmt.Sprintf("%s-new-%d", f.Name, i)
		w.Functions = append(w.Functions, f)
		at := r.Float64() * s.Duration.Seconds()
		for range 3 {
			w.add(i, seconds(at+r.Float64()*30))
			left -= f.Warm.Seconds()
		}
	}
	return nil
}

// flash has twenty functions with equal shares of the load. After a third of the time, one of
// them is called 400 times within ten seconds, for each device's worth of capacity.
func flash(s Spec, w *Workload) error {
	s.Count = 20
	err := equal(s, w)
	r := stream(s.Seed, 1<<38)
	one := r.IntN(20)
	for range int(400 * max(s.Capacity, 1)) {
		w.add(one, s.Duration/3+seconds(r.Float64()*10))
	}
	return err
}

// crowd is how many functions share the load of the rare class.
const crowd = 100

// rare has a crowd of functions with equal shares of the load, and one more function that is
// called about once a minute. Under a load above 1 the rare function finds queued work in
// every other flow.
func rare(s Spec, w *Workload) error {
	f := Function{Warm: 100 * time.Millisecond, Cold: 1100 * time.Millisecond, Memory: 64 * mib}
	for i := range crowd {
		f.Name = fmt.Sprintf("crowd-%02d", i)
		s.call(w, f, uint64(i+1), s.offered()/f.Warm.Seconds()/crowd, 0)
	}
	f.Name = "rare"
	s.call(w, f, crowd+1, 1.0/60, 0)
	return nil
}

// hog floods: one function asks for the whole device on its own, over the
// normal traffic of the zipf class.
func hog(s Spec, w *Workload) error {
	err := zipf(s, w)
	attacker := named("pathfinder", "hog")
	s.call(w, attacker, 1<<34, 1/attacker.Warm.Seconds(), 0)
	return err
}

// tiny is a thousand functions that are each called about once an hour, so that
// none can stay warm and each counts as a flow, over eight common functions.
func tiny(s Spec, w *Workload) error {
	s.Count = 8
	err := zipf(s, w)
	for k := range 1000 {
		f := Function{Name: fmt.Sprintf("tiny-%04d", k), Warm: 10 * time.Millisecond, Cold: 300 * time.Millisecond, Memory: 64 * mib}
		s.call(w, f, 1<<35+uint64(k), 1.0/3600, 0)
	}
	return err
}

// liar earns a small estimate with forty short runs, then sends ten of eight
// seconds, over and over: a policy that charges by the estimate alone
// undercharges.
func liar(s Spec, w *Workload) error {
	err := zipf(s, w)
	i := int32(len(w.Functions))
	w.Functions = append(w.Functions, Function{Name: "liar", Warm: 20 * time.Millisecond, Cold: 2 * time.Second, Memory: gib})
	for n, at := 0, time.Duration(0); at < s.Duration; n, at = n+1, at+4*time.Second {
		a := Arrival{At: at, Function: i}
		if n%50 >= 40 {
			a.Work = 8 * time.Second
		}
		w.Arrivals = append(w.Arrivals, a)
	}
	return err
}

// onOff is idle for three minutes, longer than the TTL of its flow, then
// sends a hundred calls at once: a policy that gives a returning flow the
// virtual time it left with would let it own the device.
func onOff(s Spec, w *Workload) error {
	err := zipf(s, w)
	i := len(w.Functions)
	w.Functions = append(w.Functions, named("fft", "onoff"))
	for at := 3 * time.Minute; at < s.Duration; at += 3 * time.Minute {
		for k := range 100 {
			w.add(i, at+time.Duration(k)*time.Millisecond)
		}
	}
	return err
}
