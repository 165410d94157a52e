package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Summary is a policy's results over seeds, in seconds where times are meant.
type Summary struct {
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
	Unfinished  int     `json:"unfinished"`
	Warning     string  `json:"note,omitempty"`
}

// Spread is a figure over seeds.
type Spread struct {
	Median float64 `json:"median"`
	Q10    float64 `json:"q10"`
	Q90    float64 `json:"q90"`
	N      int     `json:"n"`
}

// SpreadOf summarizes values.
func SpreadOf(v []float64) Spread {
	v = slices.Sorted(slices.Values(v))
	return Spread{Median: quantile(v, 0.5), Q10: quantile(v, 0.1), Q90: quantile(v, 0.9), N: len(v)}
}

// String writes the median with the quantiles.
func (s Spread) String() string { return fmt.Sprintf("%.2f [%.2f %.2f]", s.Median, s.Q10, s.Q90) }

// Compare runs every entry on every seed from first on and returns one summary
// of each entry, in order. Ratios are to the first entry.
func Compare(ctx context.Context, entries []Entry, first uint64, seeds, parallel int, progress Progress) ([]Summary, error) {
	results, err := runAll(ctx, entries, first, seeds, parallel, progress)
	if err != nil {
		return nil, err
	}
	summaries := make([]Summary, len(entries))
	for i, e := range entries {
		over := func(f func(*Result) float64) Spread { return spread(results[i], f) }
		s := Summary{
			Policy: e.Params.Policy, Setting: e.Setting,
			Mean:        over(mean),
			P50:         over(func(r *Result) float64 { return r.Latency.P50 / 1000 }),
			P99:         over(func(r *Result) float64 { return r.Latency.P99 / 1000 }),
			Ratio:       ratios(results[i], results[0], mean),
			ColdShare:   over(func(r *Result) float64 { return r.ColdShare }),
			HostShare:   over(func(r *Result) float64 { return share(float64(r.Starts.HostWarm), r.Starts.Total()) }),
			Utilization: over(func(r *Result) float64 { return r.Utilization }),
			Gap:         over(func(r *Result) float64 { return r.GapBacklogged.Mean }),
			LowerBound:  over(bound),
			OverBound:   over(func(r *Result) float64 { return r.OverBound }),
			GapOfBound:  largestGap(results[i]),
		}
		for _, r := range results[i] {
			s.Unfinished += r.Unfinished
			if r.Warning != "" {
				s.Warning = r.Warning
			}
		}
		summaries[i] = s
	}
	return summaries, nil
}

// mean and bound are the figures that most comparisons are about, in seconds.
func mean(r *Result) float64  { return r.Latency.Mean / 1000 }
func bound(r *Result) float64 { return r.LowerBound / 1000 }

// largestGap is the largest gap of all runs over its bound.
func largestGap(rs []*Result) (worst float64) {
	for _, r := range rs {
		worst = max(worst, ratio(r.GapBacklogged.Max, r.GapBound))
	}
	return worst
}

// values are a figure of each result.
func values(rs []*Result, f func(*Result) float64) []float64 {
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = f(r)
	}
	return v
}

// spread summarizes a figure of each result.
func spread(rs []*Result, f func(*Result) float64) Spread { return SpreadOf(values(rs, f)) }

// ratios summarizes a figure over the mean latency of other results, seed by seed.
func ratios(mine, base []*Result, f func(*Result) float64) Spread {
	return SpreadOf(quotients(values(mine, f), values(base, mean)))
}

// quotients divides the figures of each seed.
func quotients(over, under []float64) []float64 {
	v := make([]float64, min(len(over), len(under)))
	for i := range v {
		v[i] = ratio(over[i], under[i])
	}
	return v
}

func ratio(a, b float64) float64 {
	switch {
	case b != 0:
		return a / b
	case a == 0:
		return 1
	}
	return math.MaxFloat64
}

// SummaryTable is the output of compare and sweep.
func SummaryTable(summaries []Summary) Table {
	t := Table{Head: strings.Split("policy,,mean s [q10 q90],ratio [q10 q90],p99 s,lower bound s,over it,cold,host-warm,gap s,of bound,left", ",")}
	for _, s := range summaries {
		left := ""
		if s.Unfinished > 0 {
			left = strconv.Itoa(s.Unfinished)
		}
		t.Add(s.Policy, s.Setting, s.Mean, s.Ratio, fmt.Sprintf("%.1f", s.P99.Median), fmt.Sprintf("%.2f", s.LowerBound.Median),
			fmt.Sprintf("%.2f", s.OverBound.Median), fmt.Sprintf("%.1f%%", 100*s.ColdShare.Median), fmt.Sprintf("%.1f%%", 100*s.HostShare.Median),
			fmt.Sprintf("%.1f", s.Gap.Median), fmt.Sprintf("%.2f", s.GapOfBound), left)
	}
	return t
}
