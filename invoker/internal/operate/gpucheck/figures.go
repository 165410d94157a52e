package gpucheck

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// quantile returns the nearest number at a quantile, 0 for no numbers.
func quantile(q float64, xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(xs))[int(q*float64(len(xs)-1)+0.5)]
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

// overhead is how much longer the runs under the shim took, by the medians.
func overhead(without, under []float64) float64 { return share(median(under), median(without)) - 1 }

// interval is the 95% interval of the overhead. It comes from a thousand draws of as many
// runs as were measured (bootstrap).
func interval(without, under []float64) (least, most float64) {
	r, all := rand.New(rand.NewPCG(1, 1)), make([]float64, 1000)
	draw := func(from []float64) (out []float64) {
		for range from {
			out = append(out, from[r.IntN(len(from))])
		}
		return out
	}
	for i := range all {
		all[i] = overhead(draw(without), draw(under))
	}
	return quantile(0.025, all), quantile(0.975, all)
}

// share is a part of a whole. It is 0 if the whole is 0.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// rate is a bandwidth in GB/s, of 10^9 bytes as is usual for copies.
func rate(bytes int64, took time.Duration) float64 { return share(float64(bytes), float64(took)) }

func gbs(rate float64) string { return fmt.Sprintf("%.1f", rate) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func percent(v float64) string {
	return fmt.Sprintf(pick(v >= 0.1 || v <= -0.1, "%.0f%%", "%.2f%%"), 100*v)
}

func size(n int64) string {
	switch {
	case n < 0:
		return "-" + size(-n)
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d B", n)
}

// pick is one of two values for a fact.
func pick[T any](is bool, yes, no T) T {
	if is {
		return yes
	}
	return no
}
