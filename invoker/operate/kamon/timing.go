package kamon

import (
	"math"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// timing is a time, or another value, that was taken so often.
type timing struct {
	value    float64
	times    float64
	low, upp float64 // bounds of its bucket
}

// String is StatsD's timer, and for more than one a rate of sampling.
func (t timing) String() string {
	s := number(t.value) + "|ms"
	if t.times > 1 {
		s += "|@" + strconv.FormatFloat(1/t.times, 'f', -1, 64)
	}
	return s
}

// taken gives the times that came into a histogram since last, one for each
// bucket. A histogram that has fewer than before began anew.
func taken(last, now *dto.Histogram) []timing {
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

// interpolate gives each its value inside its bucket, all at the same share of the
// way, so that together they make the sum: of a single one it is the time itself,
// and means stay true. Where the last bucket has no end, that one makes the sum.
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
