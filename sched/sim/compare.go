package sim

import (
	"cmp"
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
	LeastCold   Spread  `json:"leastColdShareInOrder"`
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

// SpreadOf summarizes values, which it sorts in place.
func SpreadOf(v []float64) Spread {
	l := summarize(v)
	return Spread{Median: l.P50, Q10: quantile(v, 0.1), Q90: quantile(v, 0.9), N: len(v)}
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
		summaries[i] = summarized(e, results[i], results[0])
	}
	return summaries, nil
}

// summarized is one entry's results over seeds.
func summarized(e Entry, mine, base []*Result) Summary {
	over := func(f func(*Result) float64) Spread { return spread(mine, f) }
	s := Summary{
		Policy: e.Params.Policy, Setting: e.Setting,
		Mean:        over(mean),
		P50:         over(func(r *Result) float64 { return r.Latency.P50 / 1000 }),
		P99:         over(func(r *Result) float64 { return r.Latency.P99 / 1000 }),
		Ratio:       ratios(mine, base, mean),
		ColdShare:   over(func(r *Result) float64 { return r.ColdShare }),
		HostShare:   over(func(r *Result) float64 { return share(float64(r.Starts.HostWarm), r.Starts.Total()) }),
		Utilization: over(func(r *Result) float64 { return r.Utilization }),
		Gap:         over(func(r *Result) float64 { return r.GapBacklogged.Mean }),
		LowerBound:  over(bound),
		OverBound:   over(func(r *Result) float64 { return r.OverBound }),
		LeastCold:   over(func(r *Result) float64 { return share(float64(r.LeastCold), r.Latency.Count) }),
		GapOfBound:  largestGap(mine),
	}
	for _, r := range mine {
		s.Unfinished += r.Unfinished
		if r.Warning != "" {
			s.Warning = r.Warning
		}
	}
	return s
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

// spread summarizes a figure of each result.
func spread(rs []*Result, f func(*Result) float64) Spread {
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = f(r)
	}
	return SpreadOf(v)
}

// ratios summarizes a figure over the mean latency of other results, seed by seed.
func ratios(mine, base []*Result, f func(*Result) float64) Spread {
	v := make([]float64, len(mine))
	for i, r := range mine {
		v[i] = ratio(f(r), mean(base[i]))
	}
	return SpreadOf(v)
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

// SummaryTable is what compare and sweep print.
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

// Swept is a parameter that a sweep can vary: its flag, or "ttl" for two of them,
// a line about it and its usual values.
type Swept struct{ Name, Text, Values string }

// SweptParameters lists the parameters that Sweep varies.
func SweptParameters() []Swept {
	return []Swept{
		{"overrun", "T: how far a flow may run ahead", "0s,1s,2s,5s,10s,20s,50s"},
		{"tokens", "D: runs in flight per device", "1,2,3,4"},
		{"ttl-alpha", "TTL over the inter-arrival time", "0,0.5,1,2,3,4"},
		{"ttl", "one TTL for every flow", "0s,100ms,1s,2s,4s,10s"},
		{"pool", "containers per device", "4,8,12,16,24,32"},
		{"devices", "GPUs", "1,2,3,4"},
		{"retention", "which idle container is evicted", "lru,flow-lru,protect-lru,demand"},
		{"load", "share of the capacity asked for", "0.3,0.5,0.7,0.85,0.95"},
		{"weight", "weight of the first function", "0.5,1,2,4"},
	}
}

// Sweep lists the entries that vary one parameter over values, for each of the
// policies. values empty takes the usual ones. trace, when given, is the
// workload instead of spec's.
func Sweep(name, values string, policies []string, base Options, spec Spec, trace *Workload) ([]Entry, error) {
	var names []string
	for _, s := range SweptParameters() {
		names = append(names, s.Name)
		if s.Name == name {
			values = cmp.Or(values, s.Values)
		}
	}
	switch {
	case !slices.Contains(names, name):
		return nil, fmt.Errorf("--over %q: not one of %s", name, strings.Join(names, ", "))
	case trace != nil && (name == "load" || name == "weight"):
		return nil, fmt.Errorf("--over %s: a trace has its own", name)
	}
	var entries []Entry
	for v := range strings.SplitSeq(values, ",") {
		v = strings.TrimSpace(v)
		flags := []string{name + "=" + v}
		if name == "ttl" {
			flags = []string{"ttl-min=" + v, "ttl-max=" + v}
		}
		o, s := base, spec
		if err := setFlags(&o, &s, flags...); err != nil {
			return nil, fmt.Errorf("--values %q: not a value of %s", v, name)
		}
		rows, err := Entries(policies, o, s, trace)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			row.Setting = name + "=" + v
			entries = append(entries, row)
		}
	}
	return entries, nil
}
