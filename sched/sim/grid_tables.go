package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// What sticky-plus is to keep in each cell of a grid.
const (
	boundedRatio = 1.1  // mean, over the best of the policies with a bound
	bestRatio    = 1.25 // mean, over the best of all others; also of the mean over functions
	p99Ratio     = 1.2
	seedRatio    = 1.1 // mean, over mqfq-sticky in any seed
)

// GridSummary is how many cells of a grid meet what is asked for: by the median,
// and by its whole interval.
func GridSummary(cells []GridCell) Table {
	t := Table{Head: []string{"sticky-plus", "median meets it", "whole 95% interval meets it", "whole interval misses it", "cells"}}
	for _, goal := range []struct {
		text string
		most float64
		over func(GridCell) Over
		in   func(GridCell) bool // of which cells; nil for all
	}{
		{fmt.Sprintf("mean latency at most %v x the best of those with a bound on fairness", boundedRatio), boundedRatio, func(c GridCell) Over { return c.OverBounded }, nil},
		{fmt.Sprintf("mean latency at most %v x the best of all others", bestRatio), bestRatio, func(c GridCell) Over { return c.OverBest }, nil},
		{fmt.Sprintf("99th percentile at most %v x the best of all others", p99Ratio), p99Ratio, func(c GridCell) Over { return c.OverP99 }, nil},
		{fmt.Sprintf("mean over functions at most %v x the best of all others", bestRatio), bestRatio, func(c GridCell) Over { return c.OverFunctions }, nil},
		{"with fewer containers than functions: at most 0.9 x the best of batch, sjf and eevdf", 0.9, func(c GridCell) Over { return c.OverGreedy },
			func(c GridCell) bool { return c.Containers < gridFunctions }},
	} {
		var met, surely, missed, of int
		for _, c := range cells {
			if goal.in != nil && !goal.in(c) {
				continue
			}
			of++
			v := goal.over(c)
			met += count(v.Median <= goal.most)
			surely += count(v.Interval != nil && v.Interval.High <= goal.most)
			missed += count(v.Interval != nil && v.Interval.Low > goal.most)
		}
		t.Add(goal.text, met, surely, missed, of)
	}
	seed, bound := 0, 0
	for _, c := range cells {
		seed += count(c.OverSticky.Worst <= seedRatio)
		bound += count(c.GapOfBound <= 1)
	}
	t.Add(fmt.Sprintf("never above %v x mqfq-sticky, in any seed", seedRatio), seed, "-", "-", len(cells))
	t.Add("gap in service within the bound, in every seed", bound, "-", "-", len(cells))
	return t
}

func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// GridPolicies is a line for each policy: how sticky-plus's mean latency relates
// to its own, and how far its own is from the lower bound. Both are medians over
// seeds, of which the least, the middle and the largest of all cells are shown.
func GridPolicies(cells []GridCell) Table {
	t := Table{Head: []string{"policy", "sticky-plus over it: least, median, largest", "in the worst seed", "best other in", "over the lower bound: least, median, largest"}}
	for _, name := range gridRivals() {
		var overs, distances []float64
		worst, best := 0.0, 0
		for _, c := range cells {
			over := quotients(c.Means[plus], c.Means[name])
			if len(over) == 0 {
				continue // an older file leaves it out
			}
			worst = max(worst, slices.Max(over))
			overs = append(overs, SpreadOf(over).Median)
			best += count(c.OverBest.Policy == name)
			distances = append(distances, SpreadOf(quotients(c.Means[name], c.Bounds)).Median)
		}
		if name == plus {
			t.Add(name, "-", "-", "-", span(distances))
			continue
		}
		t.Add(name, span(overs), fmt.Sprintf("%.2f", worst), best, span(distances))
	}
	return t
}

// span writes the least, the middle and the largest of some figures.
func span(v []float64) string {
	if len(v) == 0 {
		return ""
	}
	s := SpreadOf(v) // sorts them
	return fmt.Sprintf("%.2f, %.2f, %.2f", v[0], s.Median, v[len(v)-1])
}

// GridWorst is the worst cell of each workload among those in which another policy is
// better by more than what is to be kept, the worst first, and how many such cells there
// are of the workload.
func GridWorst(cells []GridCell) Table {
	t := Table{Head: append(slices.Clone(serverHead), "best other", "sticky-plus over it", "best p99", "over it", "best over functions", "over it", "over mqfq-sticky", "such cells")}
	excess := func(c GridCell) float64 {
		return max(c.OverBest.Median/bestRatio, c.OverP99.Median/p99Ratio, c.OverFunctions.Median/bestRatio, c.OverBounded.Median/boundedRatio)
	}
	type workload struct {
		kind string
		each int64
	}
	worst, missed := map[workload]GridCell{}, map[workload]int{}
	for _, c := range cells {
		w := workload{c.Workload, c.Footprint}
		if excess(c) <= 1 {
			continue
		}
		if missed[w]++; missed[w] == 1 || excess(c) > excess(worst[w]) {
			worst[w] = c
		}
	}
	list := slices.SortedFunc(maps.Values(worst), func(a, b GridCell) int {
		return cmp.Or(cmp.Compare(excess(b), excess(a)), cmp.Compare(a.String(), b.String()))
	})
	for _, c := range list {
		t.Add(append(c.server(), c.OverBest.Policy, c.OverBest, c.OverP99.Policy, c.OverP99, c.OverFunctions.Policy, c.OverFunctions,
			fmt.Sprintf("%.2f", c.OverSticky.Median), missed[workload{c.Workload, c.Footprint}])...)
	}
	return t
}

// server is what the tables of a grid begin their rows with.
func (c GridCell) server() []any {
	each := "own"
	if c.Footprint > 0 {
		each = Bytes(c.Footprint).String()
	}
	return []any{c.Workload, each, c.Devices, c.Tokens, c.Containers, fmt.Sprintf("%.2f", c.Load)}
}

var serverHead = []string{"workload", "memory", "devices", "D", "containers", "load"}

// GridCells is every cell of a grid: sticky-plus's mean latency over that of
// mqfq-sticky and of the best other policy, medians with their 95% intervals,
// then each policy's mean latency over the lower bound.
func GridCells(cells []GridCell) Table {
	t := Table{Head: append(slices.Clone(serverHead), "over mqfq-sticky", "its low", "its high", "worst seed",
		"best other", "over the best", "its low", "its high", "best p99", "over it", "its low", "its high",
		"best over functions", "over it", "its low", "its high", "lower bound in s")}
	for _, name := range gridRivals() {
		t.Head = append(t.Head, name+" over the bound")
	}
	for _, c := range cells {
		row := append(append(c.server(), c.OverSticky.figures()...), fmt.Sprintf("%.2f", c.OverSticky.Worst), c.OverBest.Policy)
		row = append(row, c.OverBest.figures()...)
		for _, o := range []Over{c.OverP99, c.OverFunctions} {
			row = append(append(row, o.Policy), o.figures()...)
		}
		row = append(row, fmt.Sprintf("%.1f", SpreadOf(slices.Clone(c.Bounds)).Median))
		for _, name := range gridRivals() {
			row = append(row, fmt.Sprintf("%.1f", SpreadOf(quotients(c.Means[name], c.Bounds)).Median))
		}
		t.Add(row...)
	}
	return t
}

// figures are the median and the ends of its interval.
func (o Over) figures() []any {
	median := fmt.Sprintf("%.2f", o.Median)
	if o.Interval == nil {
		return []any{median, "", ""}
	}
	return []any{median, fmt.Sprintf("%.2f", o.Interval.Low), fmt.Sprintf("%.2f", o.Interval.High)}
}

// quotients divides the figures of each seed.
func quotients(over, under []float64) []float64 {
	v := make([]float64, min(len(over), len(under)))
	for s := range v {
		v[s] = ratio(over[s], under[s])
	}
	return v
}
