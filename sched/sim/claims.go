package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Finding is one claim with its result.
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

// finding judges the results.
func (k claim) finding(section string, results map[string][]*Result, seeds int) Finding {
	v := make([]float64, seeds)
	for s := range v {
		var r []*Result
		for _, text := range k.runs {
			r = append(r, results[text][s])
		}
		v[s] = k.value(r)
	}
	f := Finding{Section: section, Name: k.name, Claim: k.text, Paper: k.paper, Unit: k.unit, Why: k.why}
	f.Value, f.Interval, f.Largest = overSeeds(v)
	f.Verdict = k.judge.verdict(f.Value.Median, f.Interval, f.Largest)
	return f
}

// chosen are the claims whose names begin with one of only, or all, by sections.
func chosen(only []string) (out []section) {
	for _, s := range sections {
		s.claims = slices.DeleteFunc(slices.Clone(s.claims), func(k claim) bool { return !begins(k.name, only) })
		if len(s.claims) > 0 {
			out = append(out, s)
		}
	}
	return out
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
func Claims(ctx context.Context, only []string, seeds, parallel int, progress Progress) (found []Finding, err error) {
	if err := CheckClaims(only); err != nil {
		return nil, err
	}
	var needed runs
	for _, s := range chosen(only) {
		for _, k := range s.claims {
			needed = append(needed, k.runs...)
		}
	}
	results, err := runTexts(ctx, needed, seeds, parallel, progress)
	if err != nil {
		return nil, err
	}
	for _, s := range chosen(only) {
		for _, k := range s.claims {
			found = append(found, k.finding(s.title, results, seeds))
		}
	}
	return found, nil
}

// ClaimsMarkdown counts the verdicts of each section and lists the findings that contradict
// their claims.
func ClaimsMarkdown(found []Finding) string {
	open := Table{Head: []string{"claim", "paper", "here, median [q10, q90]", "verdict", "why"}}
	var grid []Finding
	for _, f := range found {
		switch {
		case strings.HasPrefix(f.Name, gridPrefix):
			grid = append(grid, f)
		case f.Verdict == Not || f.Verdict == Unclear || f.Verdict == Missed:
			open.Add(f.Claim, f.Paper, f.Ours(), f.Verdict, f.Why)
		}
	}
	text := verdictsOfSections(found).Markdown()
	if len(open.Rows) > 0 {
		text += "\nFindings that contradict their claims:\n\n" + open.Markdown()
	}
	if len(grid) > 0 {
		text += "\n" + gridSentence(grid)
	}
	return text
}

// verdictsOfSections is how many findings of each section have which verdict.
func verdictsOfSections(found []Finding) Table {
	t := Table{Head: []string{"claims", "verdicts"}}
	for len(found) > 0 {
		section, n := found[0].Section, 1
		for n < len(found) && found[n].Section == section {
			n++
		}
		of := countVerdicts(found[:n])
		var verdicts []string
		for _, v := range []Verdict{Reproduced, SameDirection, Unclear, Not, Met, Missed, Measured} {
			if of[v] > 0 {
				verdicts = append(verdicts, fmt.Sprintf("%d %s", of[v], v))
			}
		}
		t.Add(section, strings.Join(verdicts, ", "))
		found = found[n:]
	}
	return t
}

func countVerdicts(found []Finding) map[Verdict]int {
	of := make(map[Verdict]int)
	for _, f := range found {
		of[f.Verdict]++
	}
	return of
}

// gridSentence sums up the grid's findings in a sentence, because there are too many for a
// table.
func gridSentence(grid []Finding) string {
	of := countVerdicts(grid)
	var medians []float64
	for _, f := range grid {
		medians = append(medians, f.Value.Median)
	}
	return fmt.Sprintf("Mean latency with 8 to 32 containers, D of 1 to 3 and loads of 0.3 to 0.95, goal <= %s: met in %d cells, missed in %d, unclear in %d; medians %s to %s.\n",
		number(claimedRatio), of[Met], of[Missed], of[Unclear], number(slices.Min(medians)), number(slices.Max(medians)))
}

// ClaimsTable is all findings with all their figures.
func ClaimsTable(found []Finding) Table {
	t := Table{Head: []string{"section", "name", "claim", "paper", "unit", "median", "q10", "q90", "low", "high", "largest", "verdict", "why"}}
	for _, f := range found {
		low, high := "", "" // of the median's 95% interval
		if f.Interval != nil {
			low, high = number(f.Interval.Low), number(f.Interval.High)
		}
		t.Add(f.Section, f.Name, f.Claim, f.Paper, strings.TrimSpace(f.Unit), number(f.Value.Median), number(f.Value.Q10), number(f.Value.Q90),
			low, high, number(f.Largest), f.Verdict, f.Why)
	}
	return t
}
