package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// gridGoals are what the cells of a grid are held against.
func gridGoals() []gridGoalOf {
	all := func(GridCell) bool { return true }
	return []gridGoalOf{
		{"mean latency at most 1.05 x the best of all others", 1.05, all, func(c GridCell) Over { return c.OverBest }},
		{"mean latency at most 1.05 x the best of those with a bound on fairness", 1.05, all, func(c GridCell) Over { return c.OverBounded }},
		{"with fewer containers than functions: at most 0.9 x the best of batch, sjf and eevdf", 0.9, GridCell.scarce, func(c GridCell) Over { return c.OverGreedy }},
	}
}

// gridGoalOf is a goal for the median of a ratio, in some of the cells.
type gridGoalOf struct {
	text string
	most float64
	in   func(GridCell) bool
	over func(GridCell) Over
}

// counts says in how many cells a goal is met by the median, in how many of those
// by its whole interval, and in how many the whole interval misses it.
func (g gridGoalOf) counts(cells []GridCell) (met, surely, missed, of int) {
	for _, c := range cells {
		if !g.in(c) {
			continue
		}
		of++
		v := g.over(c)
		met += count(v.Median <= g.most)
		surely += count(v.Interval != nil && v.Interval.High <= g.most)
		missed += count(v.Interval != nil && v.Interval.Low > g.most)
	}
	return met, surely, missed, of
}

// GridSummary writes how many cells of a grid meet what is asked for.
func GridSummary(cells []GridCell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| sticky-plus | median meets it | whole 95%% interval meets it | whole interval misses it | cells |\n|---|---|---|---|---|\n")
	for _, g := range gridGoals() {
		met, surely, missed, of := g.counts(cells)
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", g.text, met, surely, missed, of)
	}
	seed, bound := 0, 0
	for _, c := range cells {
		seed += count(c.OverSticky.Worst <= 1.2)
		bound += count(c.GapOfBound <= 1)
	}
	fmt.Fprintf(&b, "| never above 1.2 x mqfq-sticky, in any seed | %d | - | - | %d |\n", seed, len(cells))
	fmt.Fprintf(&b, "| gap in service within the bound, in every seed | %d | - | - | %d |\n", bound, len(cells))
	return b.String()
}

// GridTable writes every cell of a grid as Markdown.
func GridTable(cells []GridCell) string {
	var b strings.Builder
	b.WriteString("| workload | devices | D | containers | load | over mqfq-sticky | worst seed | best other | over it |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range cells {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %.2f | %s | %.2f | %s | %s |\n",
			c.Workload, c.Devices, c.Tokens, c.Places, c.Load, c.OverSticky, c.OverSticky.Worst, c.OverBest.Policy, c.OverBest)
	}
	return b.String()
}

// String writes the median and the interval that holds it.
func (o Over) String() string {
	if o.Interval == nil {
		return fmt.Sprintf("%.2f", o.Median)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", o.Median, o.Interval.Low, o.Interval.High)
}

func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// SortGrid puts cells that came in parts into one order.
func SortGrid(cells []GridCell) {
	slices.SortFunc(cells, func(a, b GridCell) int {
		return cmp.Or(
			cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.Tokens, b.Tokens), cmp.Compare(a.Places, b.Places),
			-cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Load, b.Load),
		)
	})
}
