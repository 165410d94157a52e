package sim

import (
	"context"
	"fmt"
	"math"
)

// Figure is a policy's results over seeds, in seconds where times are meant.
type Figure struct {
	Policy      string  `json:"policy"`
	Setting     string  `json:"setting,omitempty"` // what a sweep set
	Mean        Spread  `json:"mean"`
	P50         Spread  `json:"p50"`
	P99         Spread  `json:"p99"`
	Ratio       Spread  `json:"ratio"` // of the mean to the first row's, seed by seed
	ColdShare   Spread  `json:"coldShare"`
	HostShare   Spread  `json:"hostWarmShare"`
	Utilization Spread  `json:"utilization"`
	Gap         Spread  `json:"gap"` // mean gap between backlogged flows
	GapOfBound  float64 `json:"largestGapOfBound"`
	LowerBound  Spread  `json:"lowerBound"`
	OverBound   Spread  `json:"overLowerBound"` // mean latency over it, seed by seed
	LeastCold   Spread  `json:"leastColdShareInOrder"`
	Unfinished  int     `json:"unfinished"`
	Note        string  `json:"note,omitempty"`
}

// Entry is one row to compare: parameters on a source of workloads.
type Entry struct {
	Setting string
	Params  Params
	Source  *Source
}

// maxSeeds is more than anybody waits for.
const maxSeeds = 10_000

// CheckSeeds names the flag where a number of seeds cannot be.
func CheckSeeds(seeds int) error {
	if seeds < 1 || seeds > maxSeeds {
		return fmt.Errorf("--seeds %d: must lie within 1 and %d", seeds, maxSeeds)
	}
	return nil
}

// Compare runs every entry on every seed from first on and returns one figure
// for each entry, in order. Ratios are to the first entry.
func Compare(ctx context.Context, entries []Entry, first uint64, seeds, parallel int, progress Progress) ([]Figure, error) {
	if err := CheckSeeds(seeds); err != nil {
		return nil, err
	}
	var tasks []Task
	for i := range seeds {
		for _, e := range entries {
			seed := first + uint64(i)
			tasks = append(tasks, Task{Source: e.Source, Seed: seed, Params: e.Params, Bound: true})
		}
	}
	results, err := RunAll(ctx, tasks, parallel, progress)
	if err != nil {
		return nil, err
	}
	figures := make([]Figure, len(entries))
	for i, e := range entries {
		var mine, base []*Result
		for s := range seeds {
			mine = append(mine, results[s*len(entries)+i])
			base = append(base, results[s*len(entries)])
		}
		figures[i] = figure(e, mine, base)
	}
	return figures, nil
}

// figure summarizes one entry's results over seeds.
func figure(e Entry, mine, base []*Result) Figure {
	over := func(f func(i int, r *Result) float64) Spread {
		v := make([]float64, len(mine))
		for i, r := range mine {
			v[i] = f(i, r)
		}
		return SpreadOf(v)
	}
	f := Figure{
		Policy: e.Params.Policy, Setting: e.Setting,
		Mean:        over(func(_ int, r *Result) float64 { return r.Latency.Mean / 1000 }),
		P50:         over(func(_ int, r *Result) float64 { return r.Latency.P50 / 1000 }),
		P99:         over(func(_ int, r *Result) float64 { return r.Latency.P99 / 1000 }),
		Ratio:       over(func(i int, r *Result) float64 { return ratio(r.Latency.Mean, base[i].Latency.Mean) }),
		ColdShare:   over(func(_ int, r *Result) float64 { return r.ColdShare }),
		HostShare:   over(func(_ int, r *Result) float64 { return share(float64(r.Starts.HostWarm), r.Starts.Total()) }),
		Utilization: over(func(_ int, r *Result) float64 { return r.Utilization }),
		Gap:         over(func(_ int, r *Result) float64 { return r.GapBacklogged.Mean }),
		LowerBound:  over(func(_ int, r *Result) float64 { return r.LowerBound / 1000 }),
		OverBound:   over(func(_ int, r *Result) float64 { return r.OverBound }),
		LeastCold:   over(func(_ int, r *Result) float64 { return share(float64(r.LeastCold), r.Latency.Count) }),
	}
	for _, r := range mine {
		f.Unfinished += r.Unfinished
		f.GapOfBound = max(f.GapOfBound, ratio(r.GapBacklogged.Max, r.GapBound))
		if r.Note != "" {
			f.Note = r.Note
		}
	}
	return f
}

func ratio(a, b float64) float64 {
	if b == 0 {
		if a == 0 {
			return 1
		}
		return math.MaxFloat64
	}
	return a / b
}
