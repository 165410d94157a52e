package sim

import (
	"fmt"
	"math"
	"time"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// catalogue is Table 1 of the paper: warm and cold times on a V100. The memory sizes are ours,
// except FFT's 1.5 GB, the only size that the paper prints. Frameworks that allocate device
// memory in advance have more, and the Rodinia kernels have the size of inputs with such
// running times.
var catalogue = [...]Function{
	{Name: "imagenet", Warm: 2253 * time.Millisecond, Cold: 11286 * time.Millisecond, Memory: 4 * gib},
	{Name: "roberta", Warm: 268 * time.Millisecond, Cold: 15481 * time.Millisecond, Memory: 4 * gib},
	{Name: "ffmpeg", Warm: 4483 * time.Millisecond, Cold: 4612 * time.Millisecond, Memory: 1 * gib},
	{Name: "fft", Warm: 897 * time.Millisecond, Cold: 3322 * time.Millisecond, Memory: 1536 * mib},
	{Name: "isoneural", Warm: 26 * time.Millisecond, Cold: 9963 * time.Millisecond, Memory: 3 * gib},
	{Name: "lud", Warm: 2050 * time.Millisecond, Cold: 2359 * time.Millisecond, Memory: 2 * gib},
	{Name: "needle", Warm: 1979 * time.Millisecond, Cold: 2177 * time.Millisecond, Memory: 3 * gib},
	{Name: "pathfinder", Warm: 1472 * time.Millisecond, Cold: 1797 * time.Millisecond, Memory: 3 * gib},
}

// copies returns n functions, those of base over and over, numbered apart.
func copies(base []Function, n int) []Function {
	out := make([]Function, n)
	for i := range out {
		out[i] = base[i%len(base)]
		out[i].Name = fmt.Sprintf("%s-%d", out[i].Name, i/len(base))
	}
	return out
}

// large are those functions alone whose runs dwarf the transfer of their
// memory. The paper's bound of 5 s of warm time leaves nothing of its own
// Table 1, so ours is 1.9 s.
func large() (base []Function) {
	for _, f := range catalogue {
		if f.Warm >= 1900*time.Millisecond {
			base = append(base, f)
		}
	}
	return base
}

// named returns one function of the catalogue under another name.
func named(base, name string) Function {
	for _, f := range catalogue {
		if f.Name == base {
			f.Name = name
			return f
		}
	}
	panic("sim: no function " + base)
}

// azureSamples is the paper's Table 3: the request rate and GPU utilization of
// its nine samples of the Azure trace. The samples themselves were never
// published; trace 4 has 19 functions in the paper.
var azureSamples = [...]struct {
	rate, utilization float64
	functions         int
}{
	{1.12, 0.379, 24}, {1.69, 0.443, 24}, {1.94, 0.488, 24},
	{4.26, 0.670, 24}, {2.69, 0.771, 19}, {2.57, 0.432, 24},
	{2.55, 0.799, 24}, {1.79, 0.449, 24}, {1.12, 0.542, 24},
}

// popularity is the Pareto exponent of how often functions are called.
const popularity = 1.5

// azure makes our own sample with a published rate and utilization. It has copies of the
// paper's functions with Pareto popularities, tilted towards short or long functions until the
// mean service is utilization over rate. A third of the gaps are memoryless, a third bursty
// and a third periodic, like the triggers in the Azure study.
//
// The published utilization is taken as the share of time in which the device was occupied,
// including cold starts and transfers. WarmShare is the part of this time that is warm work.
// Its default makes the occupied time under the paper's policy equal to the published figure,
// with our memory sizes.
func azure(s Spec, w *Workload) error {
	sample := azureSamples[s.TraceID]
	fns := copies(catalogue[:], sample.functions)
	r := stream(s.Seed, 1<<33+uint64(s.TraceID))
	weights := make([]float64, len(fns))
	for i := range weights {
		weights[i] = math.Pow(1-r.Float64(), -1/popularity)
	}
	rates, err := tilt(fns, weights, sample.rate, sample.utilization*s.WarmShare)
	if err != nil {
		return err
	}
	w.Name, w.Functions = fmt.Sprintf("azure-%d", s.TraceID), fns
	gaps := []gap{exponential, lognormal, clockwork}
	for i, rate := range rates {
		w.Arrivals = renew(w.Arrivals, stream(s.Seed, uint64(i+1)), i, gaps[r.IntN(len(gaps))], rate, 0, s.Duration)
	}
	return nil
}

// tilt scales weights to rates that sum to rate and keep the device busy for
// utilization: each weight is multiplied by exp(-theta x warm time), with
// theta found by bisection.
func tilt(fns []Function, weights []float64, rate, utilization float64) ([]float64, error) {
	want := utilization / rate
	rates := make([]float64, len(fns))
	tilted := func(theta float64) (sum, service float64) {
		work := 0.0
		for i, f := range fns {
			rates[i] = weights[i] * math.Exp(-theta*f.Warm.Seconds())
			work += rates[i] * f.Warm.Seconds()
			sum += rates[i]
		}
		return sum, work / sum
	}
	lo, hi := -50.0, 50.0
	for range 200 {
		mid := (lo + hi) / 2
		if _, service := tilted(mid); service > want {
			lo = mid
		} else {
			hi = mid
		}
	}
	sum, service := tilted((lo + hi) / 2)
	if math.Abs(service-want) > 0.01*want {
		return nil, fmt.Errorf("azure: mean service %.3f s cannot be had from these functions", want)
	}
	for i := range rates {
		rates[i] *= rate / sum
	}
	return rates, nil
}
