package sim

import (
	"math"
	"slices"
)

// Verdict is how a result of the paper fared here.
type Verdict string

// The verdicts on a claim.
const (
	Reproduced    Verdict = "reproduced"
	SameDirection Verdict = "same direction"
	Not           Verdict = "not"

	// Met and Missed judge goals of our own.
	Met    Verdict = "met"
	Missed Verdict = "missed"

	// Unclear is a result whose seeds lie on both sides.
	Unclear Verdict = "unclear"
	// Measured is a figure without a claim about it.
	Measured Verdict = "measured"
)

// Interval holds the median of a figure over all seeds there could be, with 95%
// confidence. Figures are ratios and differences of runs on the same seed, so
// it is one of paired comparisons.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// IntervalOf returns the interval of the sign test, which makes no assumption about the
// distribution over seeds: each seed lies above the median as likely as below. It returns nil
// for fewer than six seeds, because all of these lie on one side of the median more often than
// once in twenty times.
func IntervalOf(v []float64) *Interval {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	// outside is the chance that at most k of n seeds lie below the median.
	outside, chance := 0.0, math.Exp2(-float64(n))
	k := -1
	for i := 0; i < n/2; i++ {
		outside += chance
		if 2*outside > 0.05 {
			break
		}
		k = i
		chance *= float64(n-i) / float64(i+1)
	}
	if k < 0 {
		return nil
	}
	return &Interval{Low: v[k], High: v[n-1-k]}
}

// overSeeds sums up a figure over all seeds: its spread, the interval of its median, and its
// largest value.
func overSeeds(v []float64) (s Spread, in *Interval, largest float64) {
	return SpreadOf(v), IntervalOf(v), slices.Max(v)
}

// rule judges a figure.
type rule struct {
	judge    func(v float64) Verdict
	everyRun bool // about the largest of all seeds, not their median
}

// verdict judges the median of all seeds: its whole interval must lie on one side.
func (r rule) verdict(median float64, in *Interval, largest float64) Verdict {
	switch {
	case r.everyRun:
		return r.judge(largest)
	case in == nil && r.judge(median) != Measured:
		return Unclear
	case in == nil:
		return Measured
	}
	low, mid, high := r.judge(in.Low), r.judge(median), r.judge(in.High)
	favours := func(v Verdict) bool { return v == Reproduced || v == SameDirection }
	switch {
	case low == mid && mid == high:
		return mid
	case favours(low) && favours(mid) && favours(high):
		return SameDirection // for certain; the size is not
	}
	return Unclear
}

var inf = math.Inf(1)

// band judges a result of the paper: reproduced from lo to hi, same direction in the
// wider band.
func band(lo, hi, widerLo, widerHi float64) rule {
	return rule{judge: func(v float64) Verdict {
		switch {
		case v >= lo && v <= hi:
			return Reproduced
		case v >= widerLo && v <= widerHi:
			return SameDirection
		}
		return Not
	}}
}

// inRange judges a ratio against the paper's: reproduced when it lies between
// lo and hi, same direction when it is at least on the paper's side of 1.
func inRange(lo, hi float64) rule {
	if (lo+hi)/2 > 1 {
		return band(lo, hi, 1.02, inf)
	}
	return band(lo, hi, -inf, 0.98)
}

// atLeast is reproduced from lo on, same direction above 1.
func atLeast(lo float64) rule { return band(lo, inf, 1.02, inf) }

// atMost is reproduced up to hi, same direction up to soft.
func atMost(hi, soft float64) rule { return band(-inf, hi, -inf, soft) }

// between judges a value between two others, the one at 0 and the other at 1.
func between() rule { return band(0, 1, 0, inf) }

// goal is one of ours, met up to hi.
func goal(hi float64) rule {
	return rule{judge: func(v float64) Verdict {
		if v <= hi {
			return Met
		}
		return Missed
	}}
}

// inEveryRun is a rule about the largest of all seeds.
func inEveryRun(r rule) rule {
	r.everyRun = true
	return r
}

// measured judges nothing.
func measured() rule { return rule{judge: func(float64) Verdict { return Measured }} }
