package sim

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"
)

// The two policies that all others are compared with.
const (
	mqfq = "mqfq-sticky"
	plus = "sticky-plus"
)

// Entry is one row to compare: parameters on a workload, generated for each
// seed or read from a trace.
type Entry struct {
	Setting string // the value set by a sweep
	Params  Params
	Spec    Spec
	Trace   *Workload // replaces the workload that Spec generates
}

// Workload returns the workload of a seed.
func (e Entry) Workload(seed uint64) (*Workload, error) {
	if e.Trace != nil {
		return e.Trace, nil
	}
	e.Spec.Seed = seed
	return e.Spec.Build()
}

// Entries lists one entry for each policy under the same options and workload.
// The offered load is a share of the capacity of the server as the paper's policy
// would use it, the same for all. trace, when given, is the workload instead of
// spec's.
func Entries(policies []string, o Options, spec Spec, trace *Workload) ([]Entry, error) {
	server, err := o.Apply(mqfq)
	if err != nil {
		return nil, err
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
		entries = append(entries, Entry{Params: p, Spec: spec.For(server), Trace: trace})
	}
	return entries, nil
}

// Check tests whether entries can run, as far as their first seed shows, so that
// a wrong parameter is an error before anything has run.
func Check(entries []Entry, seed uint64) error {
	for _, e := range entries {
		w, err := e.Workload(seed)
		if err != nil {
			return err
		}
		if _, err := newEngine(w, e.Params); err != nil {
			return err
		}
	}
	return nil
}

// Progress receives after each run how many of how many are done. It is called
// from several goroutines, one at a time.
type Progress func(done, total int)

// maxSeeds is a sanity limit.
const maxSeeds = 10_000

// CheckSeeds names the flag where a number of seeds is out of range.
func CheckSeeds(seeds int) error {
	return within(inside("--seeds", seeds, 1, maxSeeds))
}

// runAll runs every entry on every seed from first on, several at a time, and
// returns the results of each entry by seed, whatever order they ended in. It
// stops at the first error or when ctx is done. parallel of 0 or less takes the
// number of processors.
func runAll(ctx context.Context, entries []Entry, first uint64, seeds, parallel int, progress Progress) ([][]*Result, error) {
	if err := CheckSeeds(seeds); err != nil {
		return nil, err
	}
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	var mu sync.Mutex // guards done and calls of progress
	done, results := 0, make([][]*Result, len(entries))
	for i, e := range entries {
		results[i] = make([]*Result, seeds)
		for s := range seeds {
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				seed := first + uint64(s)
				w, err := e.Workload(seed)
				if err == nil {
					results[i][s], err = Run(w, e.Params)
				}
				if err != nil {
					return fmt.Errorf("%s, seed %d: %w", e.Params.Policy, seed, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if done++; progress != nil {
					progress(done, len(entries)*seeds)
				}
				return nil
			})
		}
	}
	return results, group.Wait()
}

// setFlags gives flags of gpuwhisk sim run their values in options and workload.
// They are written without dashes: tokens=1, swap-each-run.
func setFlags(o *Options, s *Spec, flags ...string) error {
	k, err := kong.New(&struct {
		*Options
		*Spec
	}{o, s}, kong.NoDefaultHelp())
	if err != nil {
		return err
	}
	for _, text := range flags {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			value = "true"
		}
		i := slices.IndexFunc(k.Model.Flags, func(f *kong.Flag) bool { return f.Name == name })
		if i < 0 {
			return fmt.Errorf("no flag --%s", name)
		}
		flag := k.Model.Flags[i]
		if err := flag.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: value}), flag.Target); err != nil {
			return err
		}
	}
	return nil
}

// parse reads a run as claims and plots write it: a workload, a policy and
// flags of gpuwhisk sim run without their dashes, such as "azure fcfs tokens=1".
// A last word "series" keeps each function's service per window.
func parse(text string) (Entry, error) {
	text, series := strings.CutSuffix(text, " series")
	words, s, o := strings.Fields(text), DefaultSpec(), Options{}
	if len(words) < 2 {
		return Entry{}, fmt.Errorf("run %q: want a workload, a policy and flags", text)
	}
	s.Kind = words[0]
	if err := setFlags(&o, &s, words[2:]...); err != nil {
		return Entry{}, fmt.Errorf("run %q: %w", text, err)
	}
	entries, err := Entries(words[1:2], o, s, nil)
	if err != nil {
		return Entry{}, fmt.Errorf("run %q: %w", text, err)
	}
	entries[0].Params.Series = series
	return entries[0], nil
}

// RunsTable makes runs on seeds from 1 on and returns their results, for a plotting
// script or a spreadsheet. Each line of text is a run: a workload, a policy and flags of
// gpuwhisk sim run without their dashes. A run has one row for each seed, whose function
// is empty, and one for each of its functions.
func RunsTable(ctx context.Context, text string, seeds, parallel int, progress Progress) (Table, error) {
	t := Table{Head: []string{"run", "seed", "function", "activations", "mean_s", "std_s", "cold_share", "lower_bound_s", "gap_mean_s"}}
	var lines runs
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	results, err := runTexts(ctx, lines, seeds, parallel, progress)
	if err != nil {
		return t, err
	}
	for _, line := range slices.Compact(slices.Sorted(slices.Values(lines))) {
		for i, r := range results[line] {
			t.Add(line, i+1, "", r.Latency.Count, mean(r), r.Latency.Std/1000, r.ColdShare, bound(r), r.GapBacklogged.Mean)
			for _, f := range r.Functions {
				t.Add(line, i+1, f.Name, f.Latency.Count, f.Latency.Mean/1000, f.Latency.Std/1000, f.Starts.ColdShare(), "", "")
			}
		}
	}
	return t, nil
}

// CheckRuns returns the error of the first line that is not a run.
func CheckRuns(text string) error {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			if _, err := parse(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// runTexts makes runs on seeds from 1 on and returns their results by text and
// seed. Texts that come to the same run share it.
func runTexts(ctx context.Context, texts []string, seeds, parallel int, progress Progress) (map[string][]*Result, error) {
	var entries []Entry
	index := make(map[string]int) // index in entries, by text and by normalized text
	for _, text := range texts {
		if _, ok := index[text]; ok {
			continue
		}
		e, err := parse(text)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprintf("%+v %+v", e.Spec, e.Params)
		if _, ok := index[key]; !ok {
			index[key] = len(entries)
			entries = append(entries, e)
		}
		index[text] = index[key]
	}
	results, err := runAll(ctx, entries, 1, seeds, parallel, progress)
	if err != nil {
		return nil, err
	}
	byText := make(map[string][]*Result, len(texts))
	for _, text := range texts {
		byText[text] = results[index[text]]
	}
	return byText, nil
}

// begins reports whether a name begins with one of only, or only is empty.
func begins(name string, only []string) bool {
	return len(only) == 0 || slices.ContainsFunc(only, func(p string) bool { return strings.HasPrefix(name, p) })
}
