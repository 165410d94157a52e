package sim

import (
	"context"
	"fmt"
	"iter"
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

// section is a group of claims under a title.
type section struct {
	title  string
	claims []claim
}

// claim is how a finding is made: the runs that it needs, as parse takes them,
// the figure that it takes from those of a seed, and how that is judged.
type claim struct {
	name, text, paper, unit string
	runs                    runs
	value                   func(r []*Result) float64
	judge                   rule
	why                     string
}

// finding judges what came out.
func (k claim) finding(section string, results map[string][]*Result, seeds int) Finding {
	v := make([]float64, seeds)
	for s := range v {
		var r []*Result
		for _, text := range k.runs {
			r = append(r, results[text][s])
		}
		v[s] = k.value(r)
	}
	f := Finding{Section: section, Name: k.name, Claim: k.text, Paper: k.paper, Unit: k.unit, Why: k.why, Largest: slices.Max(v)}
	f.Value = SpreadOf(v)
	f.Interval = IntervalOf(v) // SpreadOf has sorted them
	f.Verdict = k.judge.of(f.Value.Median, f.Interval, f.Largest)
	return f
}

// chosen goes over the claims whose names begin with one of only, or all, with
// the titles of their sections.
func chosen(only []string) iter.Seq2[string, claim] {
	return func(yield func(string, claim) bool) {
		for _, s := range sections {
			for _, k := range s.claims {
				if begins(k.name, only) && !yield(s.title, k) {
					return
				}
			}
		}
	}
}

// CheckClaims names the flag where no claim's name begins with one of only.
func CheckClaims(only []string) error {
	for range chosen(only) {
		return nil
	}
	return fmt.Errorf("--only %s: no claim begins so", strings.Join(only, ","))
}

// Claims makes the runs of every claim whose name begins with one of only, or
// of all, on seeds 1 to seeds, and judges them.
func Claims(ctx context.Context, only []string, seeds, parallel int, progress Progress) (found []Finding, err error) {
	if err := CheckClaims(only); err != nil {
		return nil, err
	}
	var needed runs
	for _, k := range chosen(only) {
		needed = append(needed, k.runs...)
	}
	results, err := runTexts(ctx, needed, seeds, parallel, progress)
	if err != nil {
		return nil, err
	}
	for title, k := range chosen(only) {
		found = append(found, k.finding(title, results, seeds))
	}
	return found, nil
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
