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
	Footprints []int64  // of each function, zipf at load 0.7
	Duration   time.Duration
	First      uint64 // seed
	Retention  string // for all policies; empty for each one's own
}

// QuickGrid takes minutes of a processor's time, FullGrid two hours.
func QuickGrid() GridSize {
	return GridSize{
		Devices: []int{1, 4}, Tokens: []int{1, 2}, Containers: []float64{0.5, 1, 2}, Loads: []float64{0.3, 0.7, 0.95},
		Kinds:      []string{"burst", "diurnal", "ramp", "bimodal", "hot", "thrice", "flash", "hog"},
		Footprints: []int64{4 * gib, 8 * gib, 9 * gib, 15 * gib}, Duration: 10 * time.Minute, First: 1,
	}
}

// FullGrid is the grid that the project's goals are stated for.
func FullGrid() GridSize {
	return GridSize{
		Devices: []int{1, 2, 4, 8}, Tokens: []int{1, 2, 4}, Containers: []float64{0.5, 2.0 / 3, 1, 2}, Loads: []float64{0.3, 0.5, 0.7, 0.85, 0.95},
		Kinds:      []string{"burst", "diurnal", "ramp", "bimodal", "hot", "thrice", "flash", "hog", "tiny", "liar", "onoff"},
		Footprints: []int64{4 * gib, 8 * gib, 9 * gib, 15 * gib}, Duration: 10 * time.Minute, First: 1,
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
	// OverSticky is against mqfq-sticky, OverBest against the best of all
	// others, OverGreedy against the best of those without a bound on
	// fairness that look at size, age or queue, OverBounded against the best
	// of those that have one.
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
				c := GridCell{Workload: "zipf", Devices: devices, Tokens: tokens, Containers: each * devices}
				for _, c.Load = range g.Loads {
					list = append(list, c)
				}
				c.Load = 0.7
				for _, c.Footprint = range g.Footprints {
					list = append(list, c)
				}
				c.Footprint = 0
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
	rivals := len(gridRivals())
	for i := range cells {
		cells[i].First = g.First
		cells[i].judge(results[i*rivals:(i+1)*rivals], seeds)
	}
	return cells, JoinGrid(cells)
}

// entries are a cell's policies, which are all offered the same load.
func (c GridCell) entries(g GridSize) ([]Entry, error) {
	spec := DefaultSpec()
	spec.Kind, spec.Load, spec.Duration, spec.Count, spec.Footprint = c.Workload, c.Load, g.Duration, gridFunctions, Bytes(c.Footprint)
	pool := c.Containers / c.Devices
	o := Options{Devices: &c.Devices, Tokens: &c.Tokens, Pool: &pool}
	if g.Retention != "" {
		o.Retention = &g.Retention
	}
	return Entries(gridRivals(), o, spec, nil)
}

// judge compares the policies of a cell.
func (c *GridCell) judge(results [][]*Result, seeds int) {
	c.Seeds, c.Means = seeds, make(map[string][]float64)
	ours := results[0] // those of sticky-plus
	for i, name := range gridRivals() {
		for _, r := range results[i] {
			c.Means[name] = append(c.Means[name], mean(r))
		}
		if name == plus {
			continue
		}
		over := func(of func(*Result) float64) Over {
			v := make([]float64, seeds)
			for s, r := range results[i] {
				v[s] = ratio(of(ours[s]), of(r))
			}
			o := Over{Policy: name, Spread: SpreadOf(v), Worst: slices.Max(v)}
			o.Interval = IntervalOf(v) // SpreadOf has sorted them
			return o
		}
		byMean := over(func(r *Result) float64 { return r.Latency.Mean })
		c.OverSticky.closest(byMean, name == mqfq)
		c.OverBest.closest(byMean, true)
		c.OverGreedy.closest(byMean, name == "batch" || name == "sjf" || name == "eevdf")
		c.OverBounded.closest(byMean, name == mqfq || name == "mqfq")
		c.OverP99.closest(over(func(r *Result) float64 { return r.Latency.P99 }), true)
		c.OverFunctions.closest(over(func(r *Result) float64 { return r.FunctionMean }), true)
	}
	for _, r := range ours { // the server is the same for all policies
		c.Bounds = append(c.Bounds, bound(r))
		c.GapOfBound = max(c.GapOfBound, ratio(r.GapBacklogged.Max, r.GapBound))
	}
}

// closest keeps of those policies that count the one that sticky-plus is closest to, or
// furthest behind.
func (o *Over) closest(other Over, counts bool) {
	if counts && (o.Policy == "" || other.Median > o.Median) {
		*o = other
	}
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
			-cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Footprint, b.Footprint), cmp.Compare(a.Load, b.Load),
		)
	})
	for i, c := range cells {
		switch {
		case c.Workload == "" || c.Devices < 1 || c.Seeds < 1:
			return errors.New("not what gpuwhisk sim grid --json prints")
		case c.Seeds != cells[0].Seeds:
			return fmt.Errorf("some cells have %d seeds, others %d", cells[0].Seeds, c.Seeds)
		case c.First != cells[0].First:
			return fmt.Errorf("the first seed of some cells is %d, of others %d", cells[0].First, c.First)
		case i > 0 && slices.Equal(cells[i-1].server(), c.server()):
			return fmt.Errorf("a cell is there twice: %s", c)
		}
	}
	return nil
}

// String names a cell.
func (c GridCell) String() string {
	text := fmt.Sprintf("%s, %d devices, D %d, %d containers, load %.2f", c.Workload, c.Devices, c.Tokens, c.Containers, c.Load)
	if c.Footprint > 0 {
		text += fmt.Sprintf(", %s each", Bytes(c.Footprint))
	}
	return text
}
