package sim

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		rule
		value float64
		want  Verdict
	}{
		{inRange(2, 4), 3, Reproduced}, {inRange(2, 4), 9, SameDirection}, {inRange(2, 4), 1.5, SameDirection}, {inRange(2, 4), 0.9, Not},
		{inRange(0.5, 0.8), 0.7, Reproduced}, {inRange(0.5, 0.8), 0.9, SameDirection}, {inRange(0.5, 0.8), 1, Not},
		{atLeast(2), 2, Reproduced}, {atLeast(2), 1.5, SameDirection}, {atLeast(2), 1, Not},
		{atMost(1, 2), 1, Reproduced}, {atMost(1, 2), 2, SameDirection}, {atMost(1, 2), 3, Not},
		{between(), 0.5, Reproduced}, {between(), 1.5, SameDirection}, {between(), -0.5, Not},
		{goal(1), 1, Met}, {goal(1), 1.1, Missed}, {measured(), 7, Measured},
	} {
		if got := c.verdict(c.value, &Interval{c.value, c.value}, 0); got != c.want {
			t.Errorf("%v is judged %s, want %s", c.value, got, c.want)
		}
	}
	for largest, want := range map[float64]Verdict{1.1: Missed, 0.9: Met} {
		if got := inEveryRun(goal(1)).verdict(0.5, nil, largest); got != want {
			t.Errorf("a rule about every run gives %s at a largest of %v, want %s", got, largest, want)
		}
	}
}

func TestVerdictsNeedTheWholeInterval(t *testing.T) {
	for name, c := range map[string]struct {
		rule
		low, median, high float64
		want              Verdict
	}{
		"inside":                     {inRange(2, 4), 2.1, 3, 3.9, Reproduced},
		"the size is not certain":    {inRange(2, 4), 1.5, 3, 3.9, SameDirection},
		"larger for all that":        {inRange(2, 4), 3, 5, 9, SameDirection},
		"the low end is against it":  {inRange(2, 4), 0.9, 3, 3.9, Unclear},
		"the high end is for it":     {inRange(2, 4), 0.5, 0.9, 1.5, Unclear},
		"none of it":                 {inRange(2, 4), 0.5, 0.9, 1, Not},
		"a goal that may be missed":  {goal(1), 0.8, 0.9, 1.1, Unclear},
		"a goal that may be met":     {goal(1), 0.9, 1.1, 1.2, Unclear},
		"a goal that is missed":      {goal(1), 1.1, 1.2, 1.3, Missed},
		"nothing was claimed of it":  {measured(), 0, 1, 2, Measured},
		"from both sides of a place": {between(), -0.1, 0.1, 0.2, Unclear},
	} {
		if got := c.verdict(c.median, &Interval{c.low, c.high}, 0); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := goal(1).verdict(0.5, nil, 0.5); got != Unclear {
		t.Errorf("too few seeds: %s, want unclear", got)
	}
}

func TestIntervalOfTheSignTest(t *testing.T) {
	row := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(i + 1)
		}
		return v
	}
	// The ranks that tables of the sign test give for 95%.
	for n, want := range map[int]Interval{6: {1, 6}, 8: {1, 8}, 9: {2, 8}, 12: {3, 10}, 20: {6, 15}, 30: {10, 21}} {
		check.DeepEqual(t, IntervalOf(row(n)), &want, "%d seeds", n)
	}
	for n := range 6 {
		check.Equal(t, IntervalOf(row(n)), nil, "%d seeds", n)
	}
}
