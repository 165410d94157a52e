package gpucheck

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// figure is a value of measured numbers, and its judgement. steps.yaml explains the fields.
type figure struct {
	Key, What, Needs, Unit, Note, Given, Less string
	Value                                     []string // one of values, and the names of its numbers
	Per                                       float64  // divides the value; 0 for 1
	Goal                                      []string // of goals, and its bound
	Must                                      bool
}

// goals compare a value with its bound.
var goals = map[string]func(v, bound float64) bool{
	"exactly":   func(v, bound float64) bool { return v == bound },
	"at least":  func(v, bound float64) bool { return v >= bound },
	"at most":   func(v, bound float64) bool { return v <= bound },
	"more than": func(v, bound float64) bool { return v > bound },
}

// judge adds the value of a figure to the numbers, and the finding to the result.
func (f figure) judge(n *numbers, r *Result) error {
	if f.Needs != "" && len(n.of(f.Needs)) == 0 {
		return nil
	}
	var of [][]float64
	for _, name := range f.Value[1:] {
		if of = append(of, n.of(name)); len(of[len(of)-1]) == 0 {
			return fmt.Errorf("no %s was measured", name)
		}
	}
	v := values[f.Value[0]](of...)
	if f.Less != "" {
		v = max(0, v-n.last(f.Less))
	}
	if f.Per != 0 {
		v /= f.Per
	}
	if f.Key != "" {
		n.add(f.Key, v)
	}
	if f.What == "" {
		return nil
	}
	kind, bound := "exactly", 0.0
	if len(f.Goal) == 2 {
		kind, bound = f.Goal[0], n.last(f.Goal[1])
	}
	given := f.Given != "" && n.last(f.Given) > 0
	met := given || goals[kind](v, bound)
	if !met {
		n.add("missed", 1)
	}
	goal := Finding{Value: bound, Unit: f.Unit}.Text() + f.Note + pick(given, " (it was)", "")
	r.Findings = append(r.Findings, Finding{
		What: n.expand(f.What), Value: v, Unit: f.Unit, Goal: pick(kind == "exactly", "", kind+" ") + goal,
		Verdict: pick(met, Well, pick(f.Must, Failed, Below)),
	})
	return nil
}

// values compute a number from the numbers of one name or several. Numbers of two names were
// measured in turns.
var values = map[string]func(of ...[]float64) float64{
	"sum":   func(of ...[]float64) float64 { return total(slices.Concat(of...)) },
	"last":  func(of ...[]float64) float64 { return total(of[0][max(0, len(of[0])-1):]) },
	"least": func(of ...[]float64) float64 { return quantile(0, slices.Concat(of...)) },
	"gain": func(of ...[]float64) float64 {
		return quantile(0, pairwise(of, func(a, b float64) float64 { return b - a }))
	},
	"ratio":  func(of ...[]float64) float64 { return median(pairwise(of, share)) },
	"longer": longer,
	"low":    func(of ...[]float64) float64 { return quantile(0.025, draws(of)) },
	"high":   func(of ...[]float64) float64 { return quantile(0.975, draws(of)) },
}

func pairwise(of [][]float64, f func(a, b float64) float64) (out []float64) {
	for i := range min(len(of[0]), len(of[1])) {
		out = append(out, f(of[0][i], of[1][i]))
	}
	return out
}

// longer is how much longer the first times are than the second, by the medians.
func longer(of ...[]float64) float64 { return share(median(of[0]), median(of[1])) - 1 }

// draws are a thousand results of longer, each of as many times as were measured, drawn from
// the times that were measured (bootstrap). Their middle 95% are the interval.
func draws(of [][]float64) []float64 {
	r, all := rand.New(rand.NewPCG(1, 1)), make([]float64, 1000)
	draw := func(from []float64) (out []float64) {
		for range from {
			out = append(out, from[r.IntN(len(from))])
		}
		return out
	}
	for i := range all {
		all[i] = longer(draw(of[0]), draw(of[1]))
	}
	return all
}

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

func total(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}

// share is a part of a whole. It is 0 if the whole is 0.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
