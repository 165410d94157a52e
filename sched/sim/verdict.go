package sim

import "math"

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

// IntervalOf returns the interval of the sign test, which assumes nothing about
// how seeds differ: each lies above the median as likely as below. v is sorted.
// Fewer than six seeds have none, for all of them may lie on one side of the
// median more often than once in twenty times.
func IntervalOf(v []float64) *Interval {
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

// rule judges one figure. One for every run looks at the largest of all seeds;
// the others need the whole interval of the median on one side.
type rule struct {
	judge    func(v float64) Verdict
	everyRun bool
}

func (r rule) of(median float64, in *Interval, largest float64) Verdict {
	if r.everyRun {
		return r.judge(largest)
	}
	if r.judge(median) == Measured {
		return Measured
	}
	if in == nil {
		return Unclear
	}
	all := [...]Verdict{r.judge(in.Low), r.judge(median), r.judge(in.High)}
	switch {
	case all[0] == all[1] && all[1] == all[2]:
		return all[1]
	case favours(all[0]) && favours(all[1]) && favours(all[2]):
		return SameDirection // for certain; the size is not
	}
	return Unclear
}

func favours(v Verdict) bool { return v == Reproduced || v == SameDirection }

// judged is a rule of two conditions: reproduced where the first is met, same
// direction where the second is.
func judged(reproduced, direction func(v float64) bool) rule {
	return rule{judge: func(v float64) Verdict {
		switch {
		case reproduced(v):
			return Reproduced
		case direction(v):
			return SameDirection
		}
		return Not
	}}
}

// inRange judges a ratio against the paper's: reproduced when it lies between
// lo and hi, same direction when it is at least on the paper's side of 1.
func inRange(lo, hi float64) rule {
	return judged(func(v float64) bool { return v >= lo && v <= hi }, func(v float64) bool {
		return (lo+hi)/2 > 1 && v > 1.02 || (lo+hi)/2 < 1 && v < 0.98
	})
}

// atLeast is reproduced from lo on, same direction above 1.
func atLeast(lo float64) rule {
	return judged(func(v float64) bool { return v >= lo }, func(v float64) bool { return v > 1.02 })
}

// atMost is reproduced up to hi, same direction up to soft.
func atMost(hi, soft float64) rule {
	return judged(func(v float64) bool { return v <= hi }, func(v float64) bool { return v <= soft })
}

// between judges a value between two others, the one at 0 and the other at 1.
func between() rule {
	return judged(func(v float64) bool { return v > 0 && v < 1 }, func(v float64) bool { return v > 0 })
}

// goal is met up to hi.
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
func measured() rule {
	return rule{judge: func(float64) Verdict { return Measured }}
}
