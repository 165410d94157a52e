package kamon

import (
	"math"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// timing is a time, or another value, and how often it was measured.
type timing struct {
	value    float64
	times    float64
	low, upp float64 // bounds of its bucket
}

// String formats the timing as a timer of StatsD. If it was measured more than once, a
// sampling rate follows.
func (t timing) String() string {
	s := number(t.value) + "|ms"
	if t.times > 1 {
		s += "|@" + strconv.FormatFloat(1/t.times, 'f', -1, 64)
	}
	return s
}

// newSamples returns the samples that a histogram gained since last, one timing for each
// bucket. A histogram with fewer samples than before has started again at 0.
func newSamples(last, now *dto.Histogram) []timing {
	if last.GetSampleCount() > now.GetSampleCount() {
		last = nil
	}
	before := map[float64]uint64{}
	for _, b := range last.GetBucket() {
		before[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	before[math.Inf(1)] = last.GetSampleCount()
	var all []timing
	low, below := 0.0, 0.0
	bucket := func(upp float64, cumulative uint64) {
		c := float64(cumulative) - float64(before[upp])
		if c > below {
			all = append(all, timing{times: c - below, low: low, upp: upp})
		}
		low, below = upp, c
	}
	for _, b := range now.GetBucket() {
		if !math.IsInf(b.GetUpperBound(), 1) {
			bucket(b.GetUpperBound(), b.GetCumulativeCount())
		}
	}
	bucket(math.Inf(1), now.GetSampleCount())
	interpolate(all, now.GetSampleSum()-last.GetSampleSum())
	return all
}

// interpolate sets the values of the timings inside their buckets, all at the same share
// of the bucket's width, so that their sum is the sum of the samples. So a single sample
// has its exact value, and means are exact. If the last bucket has no upper bound, its
// value makes up the rest of the sum.
func interpolate(all []timing, sum float64) {
	least, wide := 0.0, 0.0
	for _, t := range all {
		if math.IsInf(t.upp, 1) {
			continue
		}
		least += t.times * t.low
		wide += t.times * (t.upp - t.low)
	}
	share := 0.5
	if n := len(all); n > 0 && !math.IsInf(all[n-1].upp, 1) && wide > 0 {
		share = min(max((sum-least)/wide, 0), 1)
	}
	for i := range all {
		t := &all[i]
		if math.IsInf(t.upp, 1) {
			t.value = max(t.low, (sum-least-share*wide)/t.times)
			continue
		}
		t.value = t.low + share*(t.upp-t.low)
	}
}
