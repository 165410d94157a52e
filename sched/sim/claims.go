package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Finding is one claim with what came out.
type Finding struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Claim   string `json:"claim"`
	Paper   string `json:"paper"`
	Unit    string `json:"unit,omitempty"`
	Value   Spread `json:"value"`
	// Interval holds the median of all seeds with 95% confidence. It is nil
	// where there are too few seeds for one.
	Interval *Interval `json:"interval,omitempty"`
	Largest  float64   `json:"largest"` // over seeds
	Verdict  Verdict   `json:"verdict"`
	Why      string    `json:"why"`
}

// Between writes the interval of the median.
func (f Finding) Between() string {
	if f.Interval == nil {
		return "too few seeds"
	}
	return number(f.Interval.Low) + " to " + number(f.Interval.High)
}

// Ours writes the finding's figure: median, quantiles and unit.
func (f Finding) Ours() string {
	return fmt.Sprintf("%s%s [%s, %s]", number(f.Value.Median), f.Unit, number(f.Value.Q10), number(f.Value.Q90))
}

// claim is how a finding is made: the runs of a seed that it needs, the figure
// that it takes from them, and how that is judged.
type claim struct {
	section, name, text, paper, unit, why string
	judge                                 rule
	runs                                  []*cell
	value                                 func(r []*Result) float64
}

// finding judges what came out.
func (k claim) finding(seeds int) Finding {
	v := make([]float64, seeds)
	for s := range v {
		var r []*Result
		for _, c := range k.runs {
			r = append(r, c.bySeed[s])
		}
		v[s] = k.value(r)
	}
	f := Finding{Section: k.section, Name: k.name, Claim: k.text, Paper: k.paper, Unit: k.unit, Why: k.why, Largest: slices.Max(v)}
	f.Value = SpreadOf(v)
	f.Interval = IntervalOf(v) // SpreadOf has sorted them
	f.Verdict = k.judge.of(f.Value.Median, f.Interval, f.Largest)
	return f
}

// CheckClaims names the flag where no claim's name begins with one of only.
func CheckClaims(only []string) error {
	if len(chosen(only)) == 0 {
		return fmt.Errorf("--only %s: no claim begins so", strings.Join(only, ","))
	}
	return nil
}

// Claims makes the runs of every claim whose name begins with one of only, or
// of all, on seeds 1 to seeds, and judges them.
func Claims(ctx context.Context, only []string, seeds, parallel int, progress Progress) ([]Finding, error) {
	if err := CheckSeeds(seeds); err != nil {
		return nil, err
	}
	if err := CheckClaims(only); err != nil {
		return nil, err
	}
	claims := chosen(only)
	var runs [][]*cell
	for _, k := range claims {
		runs = append(runs, k.runs)
	}
	if err := runCells(ctx, union(runs), seeds, parallel, progress); err != nil {
		return nil, err
	}
	var found []Finding
	for _, k := range claims {
		found = append(found, k.finding(seeds))
	}
	return found, nil
}

func chosen(only []string) (out []claim) {
	for _, k := range allClaims() {
		if begins(k.name, only) {
			out = append(out, k)
		}
	}
	return out
}

// ClaimsMarkdown writes findings as tables, one for each section, and those of
// the grid as a matrix.
func ClaimsMarkdown(found []Finding) string {
	var b strings.Builder
	isGrid := func(f Finding) bool { return strings.HasPrefix(f.Name, gridPrefix) }
	rest := slices.DeleteFunc(slices.Clone(found), isGrid)
	for len(rest) > 0 {
		t := Table{Head: []string{"claim", "paper", "here, median [q10, q90]", "95% interval of the median", "verdict", "why"}}
		section := rest[0].Section
		for len(rest) > 0 && rest[0].Section == section {
			f := rest[0]
			t.Add(f.Claim, f.Paper, f.Ours(), f.Between(), f.Verdict, f.Why)
			rest = rest[1:]
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s", section, t.Markdown())
	}
	if grid := slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return !isGrid(f) }); len(grid) > 0 {
		b.WriteString(gridMarkdown(grid))
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// gridMarkdown writes the medians of the grid: a row for each pool and D, a
// column for each load.
func gridMarkdown(grid []Finding) string {
	median := make(map[string]float64, len(grid))
	counts := make(map[Verdict]int)
	worst := 0.0
	for _, f := range grid {
		median[f.Name] = f.Value.Median
		worst = max(worst, f.Value.Median)
		counts[f.Verdict]++
	}
	t := Table{Head: []string{"pool", "D"}}
	for _, l := range gridLoads {
		t.Head = append(t.Head, fmt.Sprintf("load %.2f", l))
	}
	for _, p := range gridPools {
		for _, d := range gridTokens {
			row := []any{p, d}
			for _, l := range gridLoads {
				text := ""
				if v, ok := median[gridName(p, l, d)]; ok {
					text = number(v)
				}
				row = append(row, text)
			}
			t.Add(row...)
		}
	}
	return fmt.Sprintf("\nMedian ratios of mean latency over the grid, goal <= %s: met in %d cells, missed in %d, unclear in %d; the largest is %s.\n\n%s",
		number(claimedRatio), counts[Met], counts[Missed], counts[Unclear], number(worst), t.Markdown())
}
