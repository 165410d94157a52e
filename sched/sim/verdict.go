package sim

import "math"

// Verdict says how a result of the paper fared here.
type Verdict string

// The verdicts on a claim.
const (
	Reproduced    Verdict = "reproduced"
	SameDirection Verdict = "same direction"
	Not           Verdict = "not"

	// Met and Missed judge goals of our own.
	Met    Verdict = "met"
	Missed Verdict = "missed"

	// Unclear is a result whose seeds do not say on which side it lies.
	Unclear Verdict = "unclear"
	// Measured is a figure that nobody claimed anything about.
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

// inRange judges a ratio against the paper's: reproduced when it lies between
// lo and hi, same direction when it is at least on the paper's side of 1.
func inRange(lo, hi float64) rule {
	return rule{judge: func(v float64) Verdict {
		switch {
		case v >= lo && v <= hi:
			return Reproduced
		case (lo+hi)/2 > 1 && v > 1.02, (lo+hi)/2 < 1 && v < 0.98:
			return SameDirection
		}
		return Not
	}}
}

// atLeast is reproduced from lo on, same direction above 1.
func atLeast(lo float64) rule {
	return rule{judge: func(v float64) Verdict {
		switch {
		case v >= lo:
			return Reproduced
		case v > 1.02:
			return SameDirection
		}
		return Not
	}}
}

// atMost is reproduced up to hi, same direction up to soft.
func atMost(hi, soft float64) rule {
	return rule{judge: func(v float64) Verdict {
		switch {
		case v <= hi:
			return Reproduced
		case v <= soft:
			return SameDirection
		}
		return Not
	}}
}

// between judges a place between two others, the one at 0 and the other at 1.
func between() rule {
	return rule{judge: func(v float64) Verdict {
		switch {
		case v > 0 && v < 1:
			return Reproduced
		case v > 0:
			return SameDirection
		}
		return Not
	}}
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

// always is reproduced when no seed exceeds hi, and alwaysMet met.
func always(hi float64) rule {
	r := atMost(hi, hi)
	r.everyRun = true
	return r
}

func alwaysMet(hi float64) rule {
	r := goal(hi)
	r.everyRun = true
	return r
}

// measured judges nothing.
func measured() rule {
	return rule{judge: func(float64) Verdict { return Measured }}
}
