package sim

import (
	"fmt"
	"math"
)

// azureSamples is the paper's Table 3: the request rate and GPU utilization of
// its nine samples of the Azure trace. The samples themselves were never
// published; trace 4 is said to hold 19 functions.
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

// azure makes a sample of our own with a published rate and utilization:
// copies of the paper's functions with Pareto popularities, tilted towards
// short or long ones until the mean service is utilization over rate, and with
// gaps that are a third memoryless, a third bursty and a third clockwork, as
// the Azure study found triggers to be.
//
// The published utilization is taken to be the share of time that the device
// was held, with cold starts and transfers. WarmShare of it is warm work; its
// default is what makes the held time under the paper's policy come out at the
// published figure with our footprints.
func azure(s Spec) (*Workload, error) {
	sample := azureSamples[s.Trace]
	fns := copies(sample.functions)
	r := stream(s.Seed, 1<<33+uint64(s.Trace))
	weights := make([]float64, len(fns))
	for i := range weights {
		weights[i] = math.Pow(1-r.Float64(), -1/popularity)
	}
	rates, err := tilt(fns, weights, sample.rate, sample.utilization*s.WarmShare)
	if err != nil {
		return nil, err
	}
	w := &Workload{Name: fmt.Sprintf("azure-%d", s.Trace), Functions: fns}
	gaps := []gap{exponential, lognormal, clockwork}
	for i, rate := range rates {
		w.Arrivals = renew(w.Arrivals, stream(s.Seed, uint64(i+1)), i, gaps[r.IntN(len(gaps))], rate, 0, s.Duration)
	}
	return w, nil
}

// tilt scales weights to rates that sum to rate and keep the device busy for
// utilization: each weight is multiplied by exp(-theta x warm time), with
// theta found by bisection.
func tilt(fns []Function, weights []float64, rate, utilization float64) ([]float64, error) {
	want := utilization / rate
	lo, hi := -50.0, 50.0
	for range 200 {
		mid := (lo + hi) / 2
		if meanService(fns, weights, mid) > want {
			lo = mid
		} else {
			hi = mid
		}
	}
	theta := (lo + hi) / 2
	if got := meanService(fns, weights, theta); math.Abs(got-want) > 0.01*want {
		return nil, fmt.Errorf("azure: mean service %.3f s cannot be had from these functions", want)
	}
	rates, sum := make([]float64, len(fns)), 0.0
	for i := range fns {
		rates[i] = weights[i] * math.Exp(-theta*fns[i].Warm.Seconds())
		sum += rates[i]
	}
	for i := range rates {
		rates[i] *= rate / sum
	}
	return rates, nil
}

func meanService(fns []Function, weights []float64, theta float64) float64 {
	var work, sum float64
	for i, f := range fns {
		r := weights[i] * math.Exp(-theta*f.Warm.Seconds())
		work += r * f.Warm.Seconds()
		sum += r
	}
	return work / sum
}
