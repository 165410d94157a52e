package sim

import (
	"cmp"
	"errors"
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

// GridDistances writes how far each policy's mean latency is from the lower
// bound in every cell: medians of the ratio, seed by seed.
func GridDistances(cells []GridCell) string {
	var b strings.Builder
	b.WriteString("| workload | devices | D | containers | load | lower bound, s |")
	for _, name := range gridRivals() {
		fmt.Fprintf(&b, " %s |", name)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 6+len(gridRivals())) + "\n")
	for _, c := range cells {
		if len(c.Bounds) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %.2f | %.1f |", c.Workload, c.Devices, c.Tokens, c.Places, c.Load, SpreadOf(slices.Clone(c.Bounds)).Median)
		for _, name := range gridRivals() {
			fmt.Fprintf(&b, " %.1f |", c.distance(name).Median)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// distance is a policy's mean latency over the lower bound.
func (c GridCell) distance(policy string) Spread {
	v := make([]float64, min(len(c.Bounds), len(c.Means[policy])))
	for s := range v {
		v[s] = ratio(c.Means[policy][s], c.Bounds[s])
	}
	return SpreadOf(v)
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

// CheckGrid says why sorted cells that came in parts are not of one grid.
func CheckGrid(cells []GridCell) error {
	if len(cells) == 0 {
		return errors.New("no cells")
	}
	for i, c := range cells {
		switch {
		case c.Workload == "" || c.Devices < 1 || c.Seeds < 1:
			return errors.New("not what gpuwhisk sim grid --json prints")
		case c.Seeds != cells[0].Seeds:
			return fmt.Errorf("some cells have %d seeds, others %d", cells[0].Seeds, c.Seeds)
		case i > 0 && compareCells(cells[i-1], c) == 0:
			return fmt.Errorf("a cell is there twice: %s, %d devices, D %d, %d containers, load %.2f", c.Workload, c.Devices, c.Tokens, c.Places, c.Load)
		}
	}
	return nil
}

// SortGrid puts cells that came in parts into one order.
func SortGrid(cells []GridCell) {
	slices.SortFunc(cells, compareCells)
}

func compareCells(a, b GridCell) int {
	return cmp.Or(
		cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.Tokens, b.Tokens), cmp.Compare(a.Places, b.Places),
		-cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Load, b.Load),
	)
}
