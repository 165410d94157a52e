package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// GridSize is the extent of a grid of servers and workloads.
type GridSize struct {
	Devices    []int
	Tokens     []int
	Containers []float64 // of the whole server, for each function
	Loads      []float64
	Footprints []int64  // of each function, zipf at load 0.7
	Kinds      []string // beside zipf, at load 0.7
	Duration   time.Duration
	First      uint64 // seed
}

// DefaultGrid is the grid of docs/scheduling-results.md. A seed takes a minute of a
// processor's time.
func DefaultGrid() GridSize {
	return GridSize{
		Devices: []int{1, 4}, Tokens: []int{1, 2}, Containers: []float64{0.5, 1, 2}, Loads: []float64{0.3, 0.7, 0.95},
		Footprints: []int64{4 * gib, 8 * gib, 9 * gib, 15 * gib},
		Kinds:      []string{"thrice", "ramp", "hot", "hog", "flash", "diurnal", "burst", "bimodal"},
		Duration:   10 * time.Minute, First: 1,
	}
}

// Over is a ratio of latencies, sticky-plus's to another's, over seeds.
type Over struct {
	Policy string `json:"policy"`
	Spread
	// Interval holds the median of all seeds with 95% confidence; nil where
	// there are too few seeds for one.
	Interval *Interval `json:"interval,omitempty"`
	Worst    float64   `json:"worst"` // the largest of a seed
}

// GridCell is one server under one workload: how sticky-plus does there against
// mqfq-sticky and against the best of all others, by mean latency unless said.
type GridCell struct {
	Workload   string  `json:"workload"`
	Devices    int     `json:"devices"`
	Tokens     int     `json:"tokens"`
	Containers int     `json:"places"` // of the whole server
	Load       float64 `json:"load"`
	Footprint  int64   `json:"footprintBytes,omitempty"` // of each function; 0 for their own
	First      uint64  `json:"firstSeed"`
	Seeds      int     `json:"seeds"`
	// OverSticky compares with mqfq-sticky and OverBest with the best of all others.
	// OverGreedy compares with the best policy without a fairness bound that looks at size,
	// age or queue. OverBounded compares with the best policy that has a bound.
	OverSticky  Over `json:"overSticky"`
	OverBest    Over `json:"overBest"`
	OverGreedy  Over `json:"overGreedy"`
	OverBounded Over `json:"overBounded"`
	// OverP99 is against the policy with the best 99th percentile, and
	// OverFunctions against the one with the best mean over functions, each
	// function counting the same.
	OverP99       Over `json:"overP99"`
	OverFunctions Over `json:"overFunctions"`
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
				server := GridCell{Devices: devices, Tokens: tokens, Containers: each * devices, First: g.First}
				list = append(list, g.workloads(server)...)
			}
		}
	}
	return list
}

// workloads lists the cells of one server.
func (g GridSize) workloads(server GridCell) (list []GridCell) {
	add := func(kind string, load float64, footprint int64) {
		c := server
		c.Workload, c.Load, c.Footprint = kind, load, footprint
		list = append(list, c)
	}
	for _, load := range g.Loads {
		add("zipf", load, 0)
	}
	for _, footprint := range g.Footprints {
		add("zipf", 0.7, footprint)
	}
	for _, kind := range g.Kinds {
		add(kind, 0.7, 0)
	}
	return list
}

// Grid runs every policy in every cell of a grid over seeds.
func Grid(ctx context.Context, g GridSize, seeds, parallel int, progress Progress) ([]GridCell, error) {
	cells := g.Cells()
	var entries []Entry
	for _, c := range cells {
		mine, err := c.entries(g)
		if err != nil {
			return nil, err
		}
		entries = append(entries, mine...)
	}
	results, err := runAll(ctx, entries, g.First, seeds, parallel, progress)
	if err != nil {
		return nil, err
	}
	for i := range cells {
		rivals := len(gridRivals())
		cells[i].judge(results[i*rivals:(i+1)*rivals], seeds)
	}
	return cells, nil
}

// entries are a cell's policies, which are all offered the same load.
func (c GridCell) entries(g GridSize) ([]Entry, error) {
	spec := DefaultSpec()
	spec.Kind, spec.Load, spec.Duration, spec.Count, spec.Footprint = c.Workload, c.Load, g.Duration, gridFunctions, Bytes(c.Footprint)
	pool := c.Containers / c.Devices
	o := Options{Devices: &c.Devices, Tokens: &c.Tokens, Pool: &pool}
	return Entries(gridRivals(), o, spec, nil)
}

// judge compares the policies of a cell.
func (c *GridCell) judge(results [][]*Result, seeds int) {
	c.Seeds, c.Means = seeds, make(map[string][]float64)
	ours := results[0]
	for i, name := range gridRivals() {
		c.Means[name] = values(results[i], mean)
	}
	// over compares sticky-plus with the rival, of those given or of all, that gives the
	// largest ratio.
	over := func(f func(*Result) float64, rivals ...string) (best Over) {
		for i, name := range gridRivals() {
			if name == plus || len(rivals) > 0 && !slices.Contains(rivals, name) {
				continue
			}
			o := Over{Policy: name}
			o.Spread, o.Interval, o.Worst = overSeeds(quotients(values(ours, f), values(results[i], f)))
			if best.Policy == "" || o.Median > best.Median {
				best = o
			}
		}
		return best
	}
	latency := func(r *Result) float64 { return r.Latency.Mean }
	c.OverSticky, c.OverBest = over(latency, mqfq), over(latency)
	c.OverGreedy, c.OverBounded = over(latency, "batch", "sjf", "eevdf"), over(latency, mqfq, "mqfq")
	c.OverP99 = over(func(r *Result) float64 { return r.Latency.P99 })
	c.OverFunctions = over(func(r *Result) float64 { return r.FunctionMean })
	c.Bounds = values(ours, bound) // the server is the same for all policies
	c.GapOfBound = largestGap(ours)
}

// A gridGoal is a goal for sticky-plus in the cells of a grid.
type gridGoal struct {
	text  string
	limit float64
	over  func(GridCell) Over
	few   bool // only with fewer containers than functions
}

var gridGoals = []gridGoal{
	{"mean latency at most %v x the best of those with a bound on fairness", 1.1, func(c GridCell) Over { return c.OverBounded }, false},
	{"mean latency at most %v x the best of all others", 1.25, func(c GridCell) Over { return c.OverBest }, false},
	{"99th percentile at most %v x the best of all others", 1.2, func(c GridCell) Over { return c.OverP99 }, false},
	{"mean over functions at most %v x the best of all others", 1.25, func(c GridCell) Over { return c.OverFunctions }, false},
	{"with fewer containers than functions: at most %v x the best of batch, sjf and eevdf", 0.9, func(c GridCell) Over { return c.OverGreedy }, true},
}

// seedRatio is how far over mqfq-sticky the mean may be in any seed.
const seedRatio = 1.1

// GridSummary counts the cells of a grid that meet the goals: by the median, and by the whole
// interval.
func GridSummary(cells []GridCell) Table {
	t := Table{Head: []string{"sticky-plus", "median meets it", "whole 95% interval meets it", "whole interval misses it", "cells"}}
	for _, g := range gridGoals {
		var met, surely, missed, of int
		for _, c := range cells {
			if g.few && c.Containers >= gridFunctions {
				continue
			}
			of++
			v := g.over(c)
			met += count(v.Median <= g.limit)
			surely += count(v.Interval != nil && v.Interval.High <= g.limit)
			missed += count(v.Interval != nil && v.Interval.Low > g.limit)
		}
		t.Add(fmt.Sprintf(g.text, g.limit), met, surely, missed, of)
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

// excess returns a cell's largest ratio to its goal, over the goals that all cells have. A
// value above 1 means that a goal is missed.
func (c GridCell) excess() (most float64) {
	for _, g := range gridGoals {
		if !g.few {
			most = max(most, g.over(c).Median/g.limit)
		}
	}
	return most
}

// GridWorst lists, for each workload, the worst cell among those that miss a goal, worst
// first, with the number of such cells.
func GridWorst(cells []GridCell) Table {
	type workload struct {
		kind string
		each int64
	}
	missed := map[workload]int{}
	var list []GridCell // the worst of each workload
	bad := slices.DeleteFunc(slices.Clone(cells), func(c GridCell) bool { return c.excess() <= 1 })
	slices.SortStableFunc(bad, func(a, b GridCell) int { return cmp.Compare(b.excess(), a.excess()) })
	for _, c := range bad {
		w := workload{c.Workload, c.Footprint}
		if missed[w]++; missed[w] == 1 {
			list = append(list, c)
		}
	}
	t := Table{Head: append(slices.Clone(serverHead), "mean over the best other's", "99th percentile", "mean over functions", "mean over mqfq-sticky's", "such cells")}
	for _, c := range list {
		t.Add(append(c.server(), c.OverBest.named(), c.OverP99.named(), c.OverFunctions.named(),
			fmt.Sprintf("%.2f", c.OverSticky.Median), missed[workload{c.Workload, c.Footprint}])...)
	}
	return t
}

// named writes the policy and the ratio to it.
func (o Over) named() string { return fmt.Sprintf("%s %v", o.Policy, o) }

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
	return fmt.Sprintf("%.2f, %.2f, %.2f", slices.Min(v), SpreadOf(v).Median, slices.Max(v))
}

// GridCells is every cell of a grid: sticky-plus's mean latency over that of
// mqfq-sticky and of the best other policy, medians with their 95% intervals,
// then each policy's mean latency over the lower bound.
func GridCells(cells []GridCell) Table {
	t := Table{Head: append(slices.Clone(serverHead), "mean over mqfq-sticky", "low", "high", "worst seed",
		"best mean", "mean over it", "mean low", "mean high", "best p99", "p99 over it", "p99 low", "p99 high",
		"best over functions", "functions over it", "functions low", "functions high", "lower bound in s")}
	for _, name := range gridRivals() {
		t.Head = append(t.Head, name+" over the bound")
	}
	for _, c := range cells {
		row := append(append(c.server(), c.OverSticky.figures()...), fmt.Sprintf("%.2f", c.OverSticky.Worst))
		for _, o := range []Over{c.OverBest, c.OverP99, c.OverFunctions} {
			row = append(append(row, o.Policy), o.figures()...)
		}
		row = append(row, fmt.Sprintf("%.1f", SpreadOf(c.Bounds).Median))
		for _, name := range gridRivals() {
			row = append(row, fmt.Sprintf("%.1f", SpreadOf(quotients(c.Means[name], c.Bounds)).Median))
		}
		t.Add(row...)
	}
	return t
}

// server returns the first columns of a grid's tables.
func (c GridCell) server() []any {
	each := "own"
	if c.Footprint > 0 {
		each = Bytes(c.Footprint).String()
	}
	return []any{c.Workload, each, c.Devices, c.Tokens, c.Containers, fmt.Sprintf("%.2f", c.Load)}
}

var serverHead = []string{"workload", "memory", "devices", "D", "containers", "load"}

// figures are the median and the ends of its interval.
func (o Over) figures() []any {
	if o.Interval == nil {
		return []any{fmt.Sprintf("%.2f", o.Median), "", ""}
	}
	return []any{fmt.Sprintf("%.2f", o.Median), fmt.Sprintf("%.2f", o.Interval.Low), fmt.Sprintf("%.2f", o.Interval.High)}
}

// String writes the median and its interval.
func (o Over) String() string {
	if o.Interval == nil {
		return fmt.Sprintf("%.2f", o.Median)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", o.Median, o.Interval.Low, o.Interval.High)
}
