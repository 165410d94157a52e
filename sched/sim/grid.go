package sim

import (
	"context"
	"fmt"
	"math"
	"strings"
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

// QuickGrid takes minutes on two processors, FullGrid hours.
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
		Kinds: []string{"burst", "diurnal", "hog", "tiny", "liar", "onoff"}, Duration: 30 * time.Minute,
	}
}

// GridCell is one server under one workload: how sticky-plus does there against
// mqfq-sticky and against the best of all others, by mean latency.
type GridCell struct {
	Workload string  `json:"workload"`
	Devices  int     `json:"devices"`
	Tokens   int     `json:"tokens"`
	Places   int     `json:"places"` // containers of the whole server
	Load     float64 `json:"load"`
	Best     string  `json:"best"` // of the others, by median
	// OverBest is the ratio to Best, OverSticky to mqfq-sticky, seed by seed.
	OverBest   Spread  `json:"overBest"`
	OverSticky Spread  `json:"overSticky"`
	WorstSeed  float64 `json:"worstSeed"` // the largest ratio to mqfq-sticky
	// GapOfBound is the largest gap in service as a share of the bound.
	GapOfBound float64 `json:"gapOfBound"`
}

// gridRivals are the policies of a grid; the first is sticky-plus.
func gridRivals() []string {
	return []string{plus, mqfq, "mqfq", "batch", "sjf", "eevdf", "paella", "fcfs"}
}

const gridFunctions = 24

// cells lists a grid's servers and workloads.
func (g GridSize) cells() (list []GridCell) {
	for _, devices := range g.Devices {
		for _, tokens := range g.Tokens {
			for _, places := range g.Places {
				// Each device has its own containers, one at least for each token.
				each := max(tokens, int(math.Ceil(places*gridFunctions/float64(devices))))
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

// Grid runs every policy in every cell of a grid over seeds.
func Grid(ctx context.Context, g GridSize, seeds, parallel int, progress Progress) ([]GridCell, error) {
	cells := g.cells()
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
			list = append(list, Task{Source: source, Seed: uint64(seed) + 1, Params: p})
		}
	}
	return list, nil
}

// judge compares the policies of a cell.
func (c *GridCell) judge(results []*Result, seeds int) {
	mean := func(policy, seed int) float64 { return results[policy*seeds+seed].Latency.Mean }
	over := func(policy int) []float64 {
		v := make([]float64, seeds)
		for s := range v {
			v[s] = ratio(mean(0, s), mean(policy, s))
		}
		return v
	}
	c.OverSticky = SpreadOf(over(1))
	for _, v := range over(1) {
		c.WorstSeed = max(c.WorstSeed, v)
	}
	for policy, name := range gridRivals() {
		if policy == 0 {
			continue
		}
		if s := SpreadOf(over(policy)); c.Best == "" || s.Median > c.OverBest.Median {
			c.Best, c.OverBest = name, s
		}
	}
	for s := range seeds {
		r := results[s]
		c.GapOfBound = max(c.GapOfBound, ratio(r.GapBacklogged.Max, r.GapBound))
	}
}

// GridTable writes a grid as Markdown: what holds, then every cell.
func GridTable(cells []GridCell) string {
	var b strings.Builder
	best, sticky, seed, bound := 0, 0, 0, 0
	for _, c := range cells {
		best += count(c.OverBest.Median <= 1.05)
		sticky += count(c.OverSticky.Median <= 1)
		seed += count(c.WorstSeed <= 1.2)
		bound += count(c.GapOfBound <= 1)
	}
	n := len(cells)
	fmt.Fprintf(&b, "| sticky-plus | cells |\n|---|---|\n")
	fmt.Fprintf(&b, "| median mean latency at most 1.05 x the best of all others | %d of %d |\n", best, n)
	fmt.Fprintf(&b, "| median mean latency at most mqfq-sticky's | %d of %d |\n", sticky, n)
	fmt.Fprintf(&b, "| no seed above 1.2 x mqfq-sticky | %d of %d |\n", seed, n)
	fmt.Fprintf(&b, "| gap in service within the bound | %d of %d |\n\n", bound, n)
	b.WriteString("| workload | devices | D | containers | load | over mqfq-sticky | worst seed | best other | over it |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range cells {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %.2f | %.2f [%.2f, %.2f] | %.2f | %s | %.2f [%.2f, %.2f] |\n",
			c.Workload, c.Devices, c.Tokens, c.Places, c.Load, c.OverSticky.Median, c.OverSticky.Q10, c.OverSticky.Q90,
			c.WorstSeed, c.Best, c.OverBest.Median, c.OverBest.Q10, c.OverBest.Q90)
	}
	return b.String()
}

func count(ok bool) int {
	if ok {
		return 1
	}
	return 0
}
