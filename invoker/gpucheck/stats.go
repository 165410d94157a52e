package gpucheck

import (
	"slices"
	"time"
)

// quantile of numbers, by the nearest; 0 of none.
func quantile(q float64, xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	i := int(q*float64(len(s)-1) + 0.5)
	return s[i]
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// rate is a bandwidth in GB/s, of 10^9 bytes as copies are usually told.
func rate(bytes int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(bytes) / took.Seconds() / 1e9
}

func rates(bytes int64, ns []int64) []float64 {
	out := make([]float64, len(ns))
	for i, n := range ns {
		out[i] = rate(bytes, time.Duration(n))
	}
	return out
}

// share is a part of a whole, 0 of nothing.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
