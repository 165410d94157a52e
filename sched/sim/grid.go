package sim

import (
	"context"
	"math"
	"slices"
	"time"
)

// GridSize is what a grid of servers and workloads spans.
type GridSize struct {
	Devices  []int
	Tokens   []int
	Places   []float64 // containers of the whole server over functions
	Loads    []float64
	Kinds    []string // beside zipf, at load 0.7
	Duration time.Duration
}

// QuickGrid takes minutes of a processor's time, FullGrid an hour.
func QuickGrid() GridSize {
	return GridSize{
		Devices: []int{1, 4}, Tokens: []int{1, 2}, Places: []float64{0.5, 1, 2}, Loads: []float64{0.3, 0.7, 0.95},
		Kinds: []string{"burst", "diurnal", "hog"}, Duration: 10 * time.Minute,
	}
}

// FullGrid is the grid that the project's goals are stated for.
func FullGrid() GridSize {
	return GridSize{
		Devices: []int{1, 2, 4, 8}, Tokens: []int{1, 2, 4}, Places: []float64{0.5, 2.0 / 3, 1, 2}, Loads: []float64{0.3, 0.5, 0.7, 0.85, 0.95},
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
	Workload string  `json:"workload"`
	Devices  int     `json:"devices"`
	Tokens   int     `json:"tokens"`
	Places   int     `json:"places"` // containers of the whole server
	Load     float64 `json:"load"`
	Seeds    int     `json:"seeds"`
	// OverSticky is against mqfq-sticky, OverBest against whoever is best of
	// all others, OverGreedy against the best of those without a bound on
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

// scarce tells whether the cell has fewer containers than functions.
func (c GridCell) scarce() bool { return c.Places < gridFunctions }

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
			for _, places := range g.Places {
				// Each device has its own containers, one at least for each token.
				each := max(tokens, int(math.Ceil(places*gridFunctions/float64(devices))))
				if each == last {
					continue // fewer come to the same server
				}
				last = each
				c := GridCell{Workload: "zipf", Devices: devices, Tokens: tokens, Places: each * devices}
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
	var tasks []Task
	for i := range cells {
		mine, err := cells[i].tasks(g.Duration, seeds)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, mine...)
	}
	results, err := RunAll(ctx, tasks, parallel, progress)
	if err != nil {
		return nil, err
	}
	per := seeds * len(gridRivals())
	for i := range cells {
		cells[i].judge(results[i*per:(i+1)*per], seeds)
	}
	return cells, nil
}

// tasks lists a cell's runs, policy by policy, each with all seeds.
func (c *GridCell) tasks(duration time.Duration, seeds int) (list []Task, err error) {
	spec := DefaultSpec()
	spec.Kind, spec.Load, spec.Duration, spec.Functions = c.Workload, c.Load, duration, gridFunctions
	var source *Source
	for _, policy := range append([]string{mqfq}, gridRivals()...) {
		p, err := DefaultParams(policy)
		if err != nil {
			return nil, err
		}
		p.Devices, p.Tokens.Max, p.Pool.Size = c.Devices, c.Tokens, c.Places/c.Devices
		if source == nil { // all policies are offered the same load
			source = spec.For(p).Source()
			continue
		}
		for seed := range seeds {
			list = append(list, Task{Source: source, Seed: uint64(seed) + 1, Params: p, Bound: policy == plus})
		}
	}
	return list, nil
}

// judge compares the policies of a cell.
func (c *GridCell) judge(results []*Result, seeds int) {
	c.Seeds, c.Means = seeds, make(map[string][]float64)
	mean := func(policy, seed int) float64 { return results[policy*seeds+seed].Latency.Mean }
	for policy, name := range gridRivals() {
		for s := range seeds {
			c.Means[name] = append(c.Means[name], mean(policy, s)/1000)
		}
		if name == plus {
			continue
		}
		v := make([]float64, seeds)
		for s := range v {
			v[s] = ratio(mean(0, s), mean(policy, s))
		}
		over := Over{Policy: name, Spread: SpreadOf(v), Worst: slices.Max(v)}
		over.Interval = IntervalOf(v) // SpreadOf has sorted them
		closest := func(to *Over, when bool) {
			if when && (to.Policy == "" || over.Median > to.Median) {
				*to = over
			}
		}
		closest(&c.OverSticky, name == mqfq)
		closest(&c.OverBest, true)
		closest(&c.OverGreedy, name == "batch" || name == "sjf" || name == "eevdf")
		closest(&c.OverBounded, name == mqfq || name == "mqfq")
	}
	for s := range seeds {
		r := results[s] // of sticky-plus; the server is the same for all
		c.Bounds = append(c.Bounds, r.LowerBound/1000)
		c.GapOfBound = max(c.GapOfBound, ratio(r.GapBacklogged.Max, r.GapBound))
	}
}
