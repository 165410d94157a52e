package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
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

// Entry is one row to compare: parameters on a source of workloads.
type Entry struct {
	Setting string
	Params  Params
	Source  *Source
}

// maxSeeds is more than it is worth waiting for.
const maxSeeds = 10_000

// CheckSeeds names the flag where a number of seeds cannot be.
func CheckSeeds(seeds int) error {
	return within([]constraint{{"--seeds", seeds, seeds >= 1 && seeds <= maxSeeds, fmt.Sprintf("lie within 1 and %d", maxSeeds)}})
}

// Compare runs every entry on every seed from first on and returns one summary
// of each entry, in order. Ratios are to the first entry.
func Compare(ctx context.Context, entries []Entry, first uint64, seeds, parallel int, progress Progress) ([]Summary, error) {
	if err := CheckSeeds(seeds); err != nil {
		return nil, err
	}
	var tasks []Task
	for _, e := range entries {
		for i := range seeds {
			tasks = append(tasks, Task{Source: e.Source, Seed: first + uint64(i), Params: e.Params})
		}
	}
	results, err := RunAll(ctx, tasks, parallel, progress)
	if err != nil {
		return nil, err
	}
	summaries := make([]Summary, len(entries))
	for i, e := range entries {
		summaries[i] = summarized(e, results[i*seeds:(i+1)*seeds], results[:seeds])
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
	}
	for _, r := range mine {
		s.Unfinished += r.Unfinished
		s.GapOfBound = max(s.GapOfBound, ratio(r.GapBacklogged.Max, r.GapBound))
		if r.Warning != "" {
			s.Warning = r.Warning
		}
	}
	return s
}

// mean and bound are the figures that most comparisons are about, in seconds.
func mean(r *Result) float64  { return r.Latency.Mean / 1000 }
func bound(r *Result) float64 { return r.LowerBound / 1000 }

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

// Entries lists one entry for each policy under the same options and workload.
// The offered load is a share of the capacity of the server as the paper's policy
// would use it, the same for all. fixed, when given, is the workload instead of
// spec's.
func Entries(policies []string, o Options, spec Spec, fixed *Source) ([]Entry, error) {
	server, err := o.Apply(mqfq)
	if err != nil {
		return nil, err
	}
	source := fixed
	if source == nil {
		source = spec.For(server).Source()
	}
	var entries []Entry
	for _, policy := range policies {
		mine := o
		if policy != mqfq && policy != plus && len(policies) > 1 {
			mine.Shortest = nil // the others have an order of their own
		}
		p, err := mine.Apply(policy)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Params: p, Source: source})
	}
	return entries, nil
}

// Check tests whether entries can run at all, as far as their first seed shows:
// what is wrong with a parameter is known before anything has run.
func Check(entries []Entry, seed uint64) error {
	for _, e := range entries {
		w, err := e.Source.Workload(seed)
		if err != nil {
			return err
		}
		if _, err := newEngine(w, e.Params); err != nil {
			return err
		}
	}
	return nil
}

// Swept is a parameter that a sweep can vary: how it is called, a line about
// it, its usual values, and what setting it means.
type Swept struct {
	Name, Text, Values string
	set                func(o *Options, s *Spec, value string) error
}

// option sets one of the options from its text.
func option[T any](parse func(string) (T, error), to func(*Options) **T) func(*Options, *Spec, string) error {
	return func(o *Options, _ *Spec, text string) error {
		v, err := parse(text)
		*to(o) = &v
		return err
	}
}

func float(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

// SweptParameters lists the parameters that Sweep varies.
func SweptParameters() []Swept {
	return []Swept{
		{"overrun", "T: how far a flow may run ahead", "0s,1s,2s,5s,10s,20s,50s",
			option(time.ParseDuration, func(o *Options) **time.Duration { return &o.Overrun })},
		{"tokens", "D: runs in flight per device", "1,2,3,4", option(strconv.Atoi, func(o *Options) **int { return &o.Tokens })},
		{"ttl-alpha", "TTL over the inter-arrival time", "0,0.5,1,2,3,4", option(float, func(o *Options) **float64 { return &o.TTLAlpha })},
		{"ttl", "one TTL for every flow", "0s,100ms,1s,2s,4s,10s", func(o *Options, _ *Spec, v string) error {
			d, err := time.ParseDuration(v)
			o.TTLMin, o.TTLMax = &d, &d
			return err
		}},
		{"pool", "containers per device", "4,8,12,16,24,32", option(strconv.Atoi, func(o *Options) **int { return &o.Pool })},
		{"devices", "GPUs", "1,2,3,4", option(strconv.Atoi, func(o *Options) **int { return &o.Devices })},
		{"retention", "which idle container is given up", "lru,flow-lru,protect-lru,demand", func(o *Options, _ *Spec, v string) error {
			o.Retention = &v
			return nil
		}},
		{"load", "share of the capacity asked for", "0.3,0.5,0.7,0.85,0.95", func(_ *Options, s *Spec, v string) (err error) {
			s.Load, err = float(v)
			return err
		}},
		{"weight", "weight of the first function", "0.5,1,2,4", func(_ *Options, s *Spec, v string) (err error) {
			if s.Weight, err = float(v); s.Weight == 0 {
				return errors.New("a weight is above 0")
			}
			return err
		}},
	}
}

// Sweep lists the entries that vary one parameter over values, for each of the
// policies. values empty takes the usual ones. fixed, when given, is the
// workload instead of spec's.
func Sweep(name, values string, policies []string, base Options, spec Spec, fixed *Source) ([]Entry, error) {
	swept, err := parameter(name)
	if err != nil {
		return nil, err
	}
	if fixed != nil && (name == "load" || name == "weight") {
		return nil, fmt.Errorf("--over %s: a trace has its own", name)
	}
	if values == "" {
		values = swept.Values
	}
	var entries []Entry
	for v := range strings.SplitSeq(values, ",") {
		v = strings.TrimSpace(v)
		o, s := base, spec
		if err := swept.set(&o, &s, v); err != nil {
			return nil, fmt.Errorf("--values %q: not a value of %s", v, name)
		}
		rows, err := Entries(policies, o, s, fixed)
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

func parameter(name string) (Swept, error) {
	var names []string
	for _, s := range SweptParameters() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Swept{}, fmt.Errorf("--over %q: not one of %s", name, strings.Join(names, ", "))
}
