package gpucheck

import (
	"fmt"
	"slices"
	"time"
)

// quantile of numbers, by the nearest; 0 of none.
func quantile(q float64, xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	return s[int(q*float64(len(s)-1)+0.5)]
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	n := len(s)
	return (s[n/2] + s[(n-1)/2]) / 2
}

// share is a part of a whole, 0 of nothing.
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
	if v >= 0.1 || v <= -0.1 {
		return fmt.Sprintf("%.0f%%", 100*v)
	}
	return fmt.Sprintf("%.2f%%", 100*v)
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

// known is a text that stands on a figure, which is negative where nobody reports it.
func known(figure int64, text string) string {
	if figure < 0 {
		return "unknown"
	}
	return text
}
