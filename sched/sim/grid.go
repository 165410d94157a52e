package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// GridSize is what a grid of servers and workloads spans.
type GridSize struct {
	Devices    []int
	Tokens     []int
	Containers []float64 // of the whole server, over functions
	Loads      []float64
	Kinds      []string // beside zipf, at load 0.7
	Duration   time.Duration
}

// QuickGrid takes minutes of a processor's time, FullGrid an hour.
func QuickGrid() GridSize {
	return GridSize{
		Devices: []int{1, 4}, Tokens: []int{1, 2}, Containers: []float64{0.5, 1, 2}, Loads: []float64{0.3, 0.7, 0.95},
		Kinds: []string{"burst", "diurnal", "hog"}, Duration: 10 * time.Minute,
	}
}

// FullGrid is the grid that the project's goals are stated for.
func FullGrid() GridSize {
	return GridSize{
		Devices: []int{1, 2, 4, 8}, Tokens: []int{1, 2, 4}, Containers: []float64{0.5, 2.0 / 3, 1, 2}, Loads: []float64{0.3, 0.5, 0.7, 0.85, 0.95},
		Kinds: []string{"burst", "diurnal", "hog", "tiny", "liar", "onoff"}, Duration: 10 * time.Minute,
	}
}

// Over is a ratio of mean latencies, sticky-plus's to another's, over seeds.
type Over struct {
	Policy string `json:"policy"`
	Spread
	// Interval holds the median of all seeds with 95% confidence; nil where
	// there are too few seeds for one.
	Interval *Interval `json:"interval,omitempty"`
	Worst    float64   `json:"worst"` // the largest of a seed
}

// GridCell is one server under one workload: how sticky-plus does there against
// mqfq-sticky and against the best of all others, by mean latency.
type GridCell struct {
	Workload   string  `json:"workload"`
	Devices    int     `json:"devices"`
	Tokens     int     `json:"tokens"`
	Containers int     `json:"places"` // of the whole server
	Load       float64 `json:"load"`
	Seeds      int     `json:"seeds"`
	// OverSticky is against mqfq-sticky, OverBest against the best of all
	// others, OverGreedy against the best of those without a bound on
	// fairness that look at size, age or queue, OverBounded against the best
	// of those that have one.
	OverSticky  Over `json:"overSticky"`
	OverBest    Over `json:"overBest"`
	OverGreedy  Over `json:"overGreedy"`
	OverBounded Over `json:"overBounded"`
	// GapOfBound is the largest gap in service as a share of the bound.
	GapOfBound float64 `json:"gapOfBound"`
	// Means is each policy's mean latency by seed, in s.
	Means map[string][]float64 `json:"means"`
	// Bounds is the clairvoyant lower bound on them by seed, in s.
	Bounds []float64 `json:"lowerBounds"`
}

// gridRivals are the policies of a grid; the first is sticky-plus.
func gridRivals() []string {
	return []string{plus, mqfq, "mqfq", "batch", "sjf", "eevdf", "paella", "fcfs"}
}

const gridFunctions = 24

// Cells lists a grid's servers and workloads.
func (g GridSize) Cells() (list []GridCell) {
	for _, devices := range g.Devices {
		for _, tokens := range g.Tokens {
			last := 0
			for _, containers := range g.Containers {
				// Each device has its own containers, one at least for each token.
				each := max(tokens, int(math.Ceil(containers*gridFunctions/float64(devices))))
				if each == last {
					continue // fewer come to the same server
				}
				last = each
				c := GridCell{Workload: "zipf", Devices: devices, Tokens: tokens, Containers: each * devices}
				for _, c.Load = range g.Loads {
					list = append(list, c)
				}
				c.Load = 0.7
				for _, c.Workload = range g.Kinds {
					list = append(list, c)
				}
			}
		}
	}
	return list
}

// Grid runs every policy in every cell of a grid over seeds. Of several shards it
// does the cells of one, counted from 0: every so many of them.
func Grid(ctx context.Context, g GridSize, shard, shards, seeds, parallel int, progress Progress) ([]GridCell, error) {
	var cells []GridCell
	for i, c := range g.Cells() {
		if i%max(shards, 1) == shard {
			cells = append(cells, c)
		}
	}
	var entries []Entry
	for _, c := range cells {
		mine, err := c.entries(g.Duration)
		if err != nil {
			return nil, err
		}
		entries = append(entries, mine...)
	}
	results, err := runAll(ctx, entries, 1, seeds, parallel, progress)
	if err != nil {
		return nil, err
	}
	rivals := len(gridRivals())
	for i := range cells {
		cells[i].judge(results[i*rivals:(i+1)*rivals], seeds)
	}
	return cells, JoinGrid(cells)
}

// entries are a cell's policies, which are all offered the same load.
func (c GridCell) entries(duration time.Duration) ([]Entry, error) {
	spec := DefaultSpec()
	spec.Kind, spec.Load, spec.Duration, spec.Count = c.Workload, c.Load, duration, gridFunctions
	pool := c.Containers / c.Devices
	return Entries(gridRivals(), Options{Devices: &c.Devices, Tokens: &c.Tokens, Pool: &pool}, spec, nil)
}

// judge compares the policies of a cell.
func (c *GridCell) judge(results [][]*Result, seeds int) {
	c.Seeds, c.Means = seeds, make(map[string][]float64)
	ours := results[0] // those of sticky-plus
	for i, name := range gridRivals() {
		v := make([]float64, seeds)
		for s, r := range results[i] {
			c.Means[name] = append(c.Means[name], mean(r))
			v[s] = ratio(ours[s].Latency.Mean, r.Latency.Mean)
		}
		if name != plus {
			c.compare(name, v)
		}
	}
	for _, r := range ours { // the server is the same for all policies
		c.Bounds = append(c.Bounds, bound(r))
		c.GapOfBound = max(c.GapOfBound, ratio(r.GapBacklogged.Max, r.GapBound))
	}
}

// compare takes the ratios to a policy, seed by seed, where they are the largest.
func (c *GridCell) compare(policy string, v []float64) {
	over := Over{Policy: policy, Spread: SpreadOf(v), Worst: slices.Max(v)}
	over.Interval = IntervalOf(v) // SpreadOf has sorted them
	closest := func(to *Over, when bool) {
		if when && (to.Policy == "" || over.Median > to.Median) {
			*to = over
		}
	}
	closest(&c.OverSticky, policy == mqfq)
	closest(&c.OverBest, true)
	closest(&c.OverGreedy, policy == "batch" || policy == "sjf" || policy == "eevdf")
	closest(&c.OverBounded, policy == mqfq || policy == "mqfq")
}

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
		{"mean latency at most 1.05 x the best of all others", 1.05, func(c GridCell) Over { return c.OverBest }, nil},
		{"mean latency at most 1.05 x the best of those with a bound on fairness", 1.05, func(c GridCell) Over { return c.OverBounded }, nil},
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
		seed += count(c.OverSticky.Worst <= 1.2)
		bound += count(c.GapOfBound <= 1)
	}
	t.Add("never above 1.2 x mqfq-sticky, in any seed", seed, "-", "-", len(cells))
	t.Add("gap in service within the bound, in every seed", bound, "-", "-", len(cells))
	return t
}

func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// server is what the tables of a grid begin their rows with.
func (c GridCell) server() []any {
	return []any{c.Workload, c.Devices, c.Tokens, c.Containers, fmt.Sprintf("%.2f", c.Load)}
}

var serverHead = []string{"workload", "devices", "D", "containers", "load"}

// GridTable is every cell of a grid.
func GridTable(cells []GridCell) Table {
	t := Table{Head: append(slices.Clone(serverHead), "over mqfq-sticky", "worst seed", "best other", "over it")}
	for _, c := range cells {
		t.Add(append(c.server(), c.OverSticky, fmt.Sprintf("%.2f", c.OverSticky.Worst), c.OverBest.Policy, c.OverBest)...)
	}
	return t
}

// GridDistances is how far each policy's mean latency is from the lower bound in
// every cell: medians of the ratio, seed by seed.
func GridDistances(cells []GridCell) Table {
	t := Table{Head: append(append(slices.Clone(serverHead), "lower bound, s"), gridRivals()...)}
	for _, c := range cells {
		if len(c.Bounds) == 0 {
			continue
		}
		row := append(c.server(), fmt.Sprintf("%.1f", SpreadOf(slices.Clone(c.Bounds)).Median))
		for _, name := range gridRivals() {
			row = append(row, fmt.Sprintf("%.1f", c.distance(name).Median))
		}
		t.Add(row...)
	}
	return t
}

// distance is a policy's mean latency over the lower bound.
func (c GridCell) distance(policy string) Spread {
	v := make([]float64, min(len(c.Bounds), len(c.Means[policy])))
	for s := range v {
		v[s] = ratio(c.Means[policy][s], c.Bounds[s])
	}
	return SpreadOf(v)
}

// String writes the median and its interval.
func (o Over) String() string {
	if o.Interval == nil {
		return fmt.Sprintf("%.2f", o.Median)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", o.Median, o.Interval.Low, o.Interval.High)
}

// JoinGrid puts cells that came in parts into one order, and names the reason
// where they are not of one grid.
func JoinGrid(cells []GridCell) error {
	if len(cells) == 0 {
		return errors.New("no cells")
	}
	slices.SortFunc(cells, func(a, b GridCell) int {
		return cmp.Or(
			cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.Tokens, b.Tokens), cmp.Compare(a.Containers, b.Containers),
			-cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Load, b.Load),
		)
	})
	for i, c := range cells {
		switch {
		case c.Workload == "" || c.Devices < 1 || c.Seeds < 1:
			return errors.New("not what gpuwhisk sim grid --json prints")
		case c.Seeds != cells[0].Seeds:
			return fmt.Errorf("some cells have %d seeds, others %d", cells[0].Seeds, c.Seeds)
		case i > 0 && slices.Equal(cells[i-1].server(), c.server()):
			return fmt.Errorf("a cell is there twice: %s, %d devices, D %d, %d containers, load %.2f", c.Workload, c.Devices, c.Tokens, c.Containers, c.Load)
		}
	}
	return nil
}
