package sim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// figure is one picture: its file's name, its words and its curves.
type figure struct {
	name, title, x, y string
	logX, logY        bool
	minY, maxY        float64   // of the axis; 0 leaves it to the values
	labels            []string  // of categories 0, 1, 2, ... on the x axis
	ticks             []float64 // of the x axis, where it has these values alone
	curves            []curve
}

// style is how a curve is drawn.
type style int

const (
	lines  style = iota // joined medians with bars from q10 to q90
	plain               // a line alone
	dotted              // a line with dots
	dots                // medians with bars, curves beside each other
	bars
	limit  // a dashed line: a bound
	limits // a dash at each category
)

// curve is a row of figures, from the runs that it reads. Its name begins with
// its policy's, if it is of one.
type curve struct {
	name   string
	style  style
	runs   []*cell
	points func() (x []float64, y []Spread)
}

// row is the curve of one figure over cells.
func row(name string, s style, x []float64, runs []*cell, f func(*Result) float64) curve {
	return curve{name, s, runs, func() ([]float64, []Spread) {
		var y []Spread
		for _, c := range runs {
			y = append(y, spread(c.bySeed, f))
		}
		return x, y
	}}
}

// normalized is a curve of ratios to the mean latency of other cells, seed by seed.
func normalized(name string, s style, x []float64, runs, base []*cell, f func(*Result) float64) curve {
	return curve{name, s, slices.Concat(runs, base), func() ([]float64, []Spread) {
		var y []Spread
		for i, c := range runs {
			y = append(y, ratios(c.bySeed, base[i].bySeed, f))
		}
		return x, y
	}}
}

// overTime is a curve over the windows of the first seed, half an hour at most.
func overTime(name string, s style, run *cell, f func(r *Result, window int) float64) curve {
	return curve{name, s, on(run), func() (x []float64, y []Spread) {
		r := run.bySeed[0]
		for w := range min(len(r.Series), 60) {
			x, y = append(x, (float64(w)+0.5)/2), append(y, Spread{Median: f(r, w)})
		}
		return x, y
	}}
}

// each makes a cell of every value.
func each(x []float64, run func(v float64) *cell) (out []*cell) {
	for _, v := range x {
		out = append(out, run(v))
	}
	return out
}

// upTo is 0, 1, 2, ... below n.
func upTo(n int) (x []float64) {
	for i := range n {
		x = append(x, float64(i))
	}
	return x
}

// CheckFigures names the flag where no figure's name begins with one of only.
func CheckFigures(only []string) error {
	for _, f := range allFigures(nil) {
		if begins(f.name, only) {
			return nil
		}
	}
	return fmt.Errorf("--only %s: no figure begins so", strings.Join(only, ","))
}

// Figures draws every figure whose name begins with one of only, or all, into
// a folder as SVG and returns the files' names. clock measures what decisions
// cost, for the one figure about it; nothing else depends on it.
func Figures(ctx context.Context, folder string, only []string, seeds, parallel int, clock func() time.Duration, progress Progress) ([]string, error) {
	if err := errors.Join(CheckSeeds(seeds), CheckFigures(only)); err != nil {
		return nil, err
	}
	var wanted []figure
	var runs [][]*cell
	for _, f := range allFigures(clock) {
		if begins(f.name, only) {
			wanted = append(wanted, f)
			for _, c := range f.curves {
				runs = append(runs, c.runs)
			}
		}
	}
	if err := runCells(ctx, union(runs), seeds, parallel, progress); err != nil {
		return nil, err
	}
	var names []string
	for _, f := range wanted {
		file := filepath.Join(folder, f.name+".svg")
		if err := draw(f, file); err != nil {
			return nil, fmt.Errorf("draw %s: %w", file, err)
		}
		names = append(names, file)
	}
	return names, nil
}

// allFigures lists the paper's figures, then ours.
func allFigures(clock func() time.Duration) []figure {
	c := newCells()
	return slices.Concat(fairnessFigures(c), latencyFigures(c), parameterFigures(c),
		[]figure{frontierFigure(c), ablationFigure(c), rareFigure(c), adversaryFigure(c), costFigure(clock)})
}

// fairnessFigures are the service of four copies over time, and the gap
// between functions over time beside its bound.
func fairnessFigures(c *cells) (out []figure) {
	for _, policy := range []string{mqfq, "fcfs"} {
		f := figure{name: "fairness-" + policy, title: "Service of four copies of a function, two from minute 5 on: " + policy, x: "minute", y: "seconds of GPU per 30 s"}
		for i, name := range []string{"low-1", "high-1", "low-2", "high-2"} {
			f.curves = append(f.curves, overTime(name, plain, c.kind("copies", policy, lasting(10*time.Minute), undrained()),
				func(r *Result, w int) float64 { return r.Series[w][i] }))
		}
		out = append(out, f)
	}
	gap := func(r *Result, w int) float64 { return slices.Max(r.Series[w]) - slices.Min(r.Series[w]) }
	m, f := c.zipf(mqfq, load(seriesLoad)), c.zipf("fcfs", load(seriesLoad))
	return append(out, figure{
		name: "gap", title: "Gap between the most and the least served of 24 functions", x: "minute", y: "seconds per 30 s",
		curves: []curve{overTime(mqfq, plain, m, gap), overTime("fcfs", plain, f, gap),
			overTime("derived bound (MQFQ)", limit, m, func(r *Result, _ int) float64 { return r.GapBound })},
	})
}

// latencyFigures compare policies.
func latencyFigures(c *cells) []figure {
	loads := []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 0.95}
	byLoad := figure{name: "load", title: "Latency against load, 24 functions, Zipf", x: "load, share of capacity", y: "mean latency, s", logY: true}
	for _, policy := range []string{mqfq, "fcfs", plus} {
		byLoad.curves = append(byLoad.curves, row(policy, lines, loads, each(loads, func(l float64) *cell { return c.zipf(policy, load(l)) }), mean))
	}
	byLoad.curves = append(byLoad.curves, row("lower bound", limit, loads, byLoad.curves[0].runs, bound))

	ds := []float64{1, 2, 3}
	policies := figure{name: "policies", title: "Policies on the medium trace", x: "D, runs in flight", y: "mean latency, s", logY: true, ticks: ds}
	for _, policy := range []string{mqfq, plus, "fcfs", "batch", "sjf", "eevdf", "paella", "mqfq", "naive"} {
		policies.curves = append(policies.curves, row(policy, dots, ds, each(ds, func(d float64) *cell { return c.medium(policy, tokens(int(d))) }), mean))
	}
	policies.curves = append(policies.curves, row("lower bound", limits, ds, policies.curves[0].runs, bound))

	samples := upTo(9)
	trace := func(policy string) []*cell {
		return each(samples, func(id float64) *cell { return c.trace(int(id), policy) })
	}
	traces := figure{name: "traces", title: "The nine samples, mean latency over that of mqfq-sticky", x: "sample", y: "ratio", logY: true, ticks: samples}
	for _, policy := range []string{"fcfs", plus, "eevdf"} {
		traces.curves = append(traces.curves, normalized(policy, dots, samples, trace(policy), trace(mqfq), mean))
	}
	traces.curves = append(traces.curves, normalized("lower bound", limits, samples, trace(mqfq), trace(mqfq), bound))
	return []figure{byLoad, policies, functionFigure(c), utilizationFigure(c), traces, gpuFigure(c)}
}

// functionFigure is each function's mean latency with its deviation, of one
// seed, functions in order of their mean under the paper's policy.
func functionFigure(c *cells) figure {
	f := figure{name: "functions", title: "Latency of each function, medium trace", x: "function, in order of its mean under mqfq-sticky", y: "mean and standard deviation, s"}
	for _, policy := range []string{mqfq, "fcfs", "batch", plus} {
		runs := on(c.medium(policy), c.medium(mqfq))
		f.curves = append(f.curves, curve{policy, dots, runs, func() (x []float64, y []Spread) {
			mine, order := runs[0].bySeed[0].Functions, runs[1].bySeed[0].Functions
			rank := make([]int, len(order))
			for i := range rank {
				rank[i] = i
			}
			sort.SliceStable(rank, func(i, j int) bool { return order[rank[i]].Latency.Mean < order[rank[j]].Latency.Mean })
			for i, fn := range rank {
				m, d := mine[fn].Latency.Mean/1000, mine[fn].Latency.Std/1000
				x, y = append(x, float64(i+1)), append(y, Spread{Median: m, Q10: max(0, m-d), Q90: m + d})
			}
			return x, y
		}})
	}
	return f
}

func utilizationFigure(c *cells) figure {
	f := figure{name: "utilization", title: "Device utilization, medium trace, mqfq-sticky", x: "minute", y: "share of time with a run", maxY: 1.15}
	for d := 1; d <= 3; d++ {
		f.curves = append(f.curves, overTime(fmt.Sprintf("D=%d", d), plain, c.medium(mqfq, tokens(d)), func(r *Result, w int) float64 { return r.Busy[w] }))
	}
	return f
}

func gpuFigure(c *cells) figure {
	ds := []float64{1, 2, 3}
	f := figure{name: "gpus", title: "One and two GPUs, high-load trace, mqfq-sticky", x: "D, runs in flight per device", y: "mean latency, s", logY: true, ticks: ds}
	for i, name := range []string{"one GPU", "two GPUs"} {
		runs := each(ds, func(d float64) *cell { return c.trace(6, mqfq, tokens(int(d)), devices(i+1)) })
		f.curves = append(f.curves, row(name, dots, ds, runs, mean), row("lower bound, "+name, limits, ds, runs, bound))
	}
	return f
}

// parameterFigures vary one parameter on the medium trace.
func parameterFigures(c *cells) []figure {
	vary := func(f figure, x []float64, lines ...curve) figure {
		f.y, f.logY = "mean latency, s", true
		f.curves = append(lines, row("lower bound", limit, x, lines[0].runs, bound))
		return f
	}
	line := func(name, policy string, x []float64, mods func(v float64) mod) curve {
		return row(name, lines, x, each(x, func(v float64) *cell { return c.medium(policy, mods(v)) }), mean)
	}
	ts, ttls := []float64{0, 1, 2, 5, 10, 20, 35, 50}, []float64{0, 0.1, 0.5, 1, 2, 3, 4}
	t := func(v float64) mod { return overrun(seconds(v)) }
	own := func(v float64) mod { return all(evictWhenInactive(), alpha(v), leastTTL(0)) }
	return []figure{
		vary(figure{name: "overrun", title: "Overrun T, medium trace", x: "T, s"}, ts,
			line(mqfq, mqfq, ts, t),
			line("mqfq-sticky, 1.0 charged", mqfq, ts, func(v float64) mod { return all(t(v), charged(time.Second)) }),
			line(plus, plus, ts, t)),
		vary(figure{name: "ttl", title: "Keep-alive of idle flows, medium trace, swapped out when inactive", x: "alpha, or the fixed TTL in s"}, ttls,
			line("alpha x own inter-arrival time", mqfq, ttls, own),
			line("alpha x a global one", mqfq, ttls, func(v float64) mod { return all(own(v), globalTTL()) }),
			line("one fixed TTL", mqfq, ttls, func(v float64) mod { return all(evictWhenInactive(), ttl(seconds(v))) })),
		poolFigure(c),
	}
}

func poolFigure(c *cells) figure {
	sizes := []float64{4, 6, 8, 12, 16, 24, 32}
	f := figure{name: "pool", title: "Cold starts against the size of the pool, medium trace", x: "containers", y: "cold starts, %", ticks: sizes}
	for _, l := range []struct {
		policy string
		d      int
	}{{mqfq, 1}, {mqfq, 2}, {mqfq, 3}, {"fcfs", 1}, {"fcfs", 2}, {plus, 2}} {
		runs := each(sizes, func(n float64) *cell { return c.medium(l.policy, tokens(l.d), pool(int(n))) })
		f.curves = append(f.curves, row(fmt.Sprintf("%s, D=%d", l.policy, l.d), lines, sizes, runs, func(r *Result) float64 { return 100 * r.ColdShare }))
	}
	return f
}

// frontierFigure sets latency against fairness: what a larger window buys, and
// how each policy compares.
func frontierFigure(c *cells) figure {
	f := figure{name: "frontier", title: "Fairness and latency, Zipf, 16 containers; T from 0 to 50 s along a line",
		x: "mean gap between backlogged functions, s per 30 s", y: "mean latency, s", logY: true, minY: 1}
	gap := func(r *Result) float64 { return r.GapBacklogged.Mean }
	medians := func(runs []*cell, f func(*Result) float64) (v []float64) {
		for _, c := range runs {
			v = append(v, spread(c.bySeed, f).Median)
		}
		return v
	}
	trail := func(name string, runs []*cell) {
		f.curves = append(f.curves, curve{name, dotted, runs, func() (x []float64, y []Spread) {
			for _, m := range medians(runs, mean) {
				y = append(y, Spread{Median: m})
			}
			return medians(runs, gap), y
		}})
	}
	windows := []float64{0, 1, 2, 5, 10, 20, 50}
	for _, policy := range []string{mqfq, plus} {
		trail(policy, each(windows, func(t float64) *cell { return c.zipf(policy, pool(16), overrun(seconds(t))) }))
	}
	for _, policy := range []string{"fcfs", "batch", "paella", "sjf", "eevdf"} {
		trail(policy, on(c.zipf(policy, pool(16))))
	}
	runs := f.curves[0].runs
	f.curves = append(f.curves, curve{"lower bound", limit, runs, func() ([]float64, []Spread) {
		x, low := medians(runs, gap), Spread{Median: medians(runs, bound)[4]}
		return []float64{slices.Min(x), slices.Max(x)}, []Spread{low, low}
	}})
	return f
}

// ablationFigure is sticky-plus with one part taken away, and MQFQ-Sticky with
// one part added.
func ablationFigure(c *cells) figure {
	f := figure{name: "ablation", title: "Parts of sticky-plus, Zipf, load 0.7, 16 containers",
		x: "part added to mqfq-sticky, or taken from sticky-plus", y: "mean latency over mqfq-sticky's"}
	base := c.zipf(mqfq, pool(16))
	part := func(label, policy string, mods ...mod) {
		x := []float64{float64(len(f.labels))}
		f.labels = append(f.labels, label)
		f.curves = append(f.curves, normalized(policy, bars, x, on(c.zipf(policy, pool(16), all(mods...))), on(base), mean))
	}
	part(mqfq, mqfq)
	part("+protect", mqfq, retain("protect-lru"))
	part("+demand", mqfq, retain("demand"))
	part("+wait", mqfq, wait(true))
	part("+correct", mqfq, correct(true))
	part("+shortest", mqfq, shortestFirst(true))
	part("+next", mqfq, prefetch("both"))
	part(plus, plus)
	part("-demand", plus, retain("lru"))
	part("-wait", plus, wait(false))
	part("-correct", plus, correct(false))
	part("-shortest", plus, shortestFirst(false))
	part("-next", plus, prefetch("active"))
	edges := []float64{-0.5, float64(len(f.labels)) - 0.5}
	f.curves = append(f.curves, normalized("lower bound", limit, edges, on(base, base), on(base, base), bound))
	return f
}

// rareFigure is what a rare call waits for behind a crowd, under each policy.
func rareFigure(c *cells) figure {
	f := figure{name: "rare", title: "A call a minute behind a hundred busy functions, cold starts of all included", y: "its mean latency, s"}
	for _, policy := range PolicyNames() {
		if !policyInfo(policy).NoPool {
			f.curves = append(f.curves, row(policy, bars, []float64{float64(len(f.labels))}, on(c.rare(policy)), ofTheRare))
			f.labels = append(f.labels, policy)
		}
	}
	return f
}

// adversaryFigure is what honest functions wait for under an adversary.
func adversaryFigure(c *cells) figure {
	attacks := []string{"hog", "liar", "onoff", "tiny"}
	f := figure{name: "adversaries", title: "The honest functions beside an adversary, load 0.5 without it", x: "adversary", y: "mean latency, s", logY: true, labels: attacks}
	for _, policy := range []string{"fcfs", mqfq, plus, "sjf"} {
		var runs []*cell
		for _, a := range attacks {
			runs = append(runs, c.kind(a, policy, load(0.5)))
		}
		f.curves = append(f.curves, row(policy, dots, upTo(len(attacks)), runs, honest))
	}
	return f
}

// honest is the mean latency over activations of all but the adversary: the
// functions of the catalogue.
func honest(r *Result) float64 {
	sum, n := 0.0, 0
	for _, f := range r.Functions {
		if name, _, _ := strings.Cut(f.Name, "-"); slices.Contains([]string{"hog", "liar", "onoff", "tiny"}, name) {
			continue
		}
		sum += f.Latency.Mean * float64(f.Latency.Count)
		n += f.Latency.Count
	}
	return share(sum, n) / 1000
}

// costFigure measures what one activation costs its policy against the number
// of backlogged flows.
func costFigure(clock func() time.Duration) figure {
	f := figure{name: "cost", title: "Cost of enqueue, next and done of one activation, where this was drawn", x: "backlogged flows", y: "microseconds", logX: true}
	x := []float64{10, 100, 1000, 10_000, 100_000}
	for _, policy := range []string{mqfq, plus, "fcfs", "paella"} {
		f.curves = append(f.curves, curve{policy, plain, nil, func() ([]float64, []Spread) {
			var y []Spread
			for _, n := range x {
				y = append(y, Spread{Median: decisionCost(policy, int(n), clock)})
			}
			return x, y
		}})
	}
	return f
}

// decisionCost returns microseconds per activation with n backlogged flows:
// the best of many short rounds, which the machine's other work disturbs least.
func decisionCost(policy string, n int, clock func() time.Duration) float64 {
	cfg, _ := sched.Defaults(policy)
	cfg.MaxFlows = max(cfg.MaxFlows, n)
	s, err := sched.New(policy, cfg, nil)
	if err != nil {
		panic(fmt.Sprintf("sim: the defaults of %s: %v", policy, err))
	}
	s.AddDevice(0, 0, 2)
	flows := make([]sched.FlowID, n)
	id := uint64(0)
	for i := range flows {
		flows[i] = sched.FlowID{Namespace: "cost", Function: fmt.Sprint("f", i)}
		for range 2 {
			s.Enqueue(0, sched.Invocation{ID: id, Flow: flows[i]})
			id++
		}
	}
	const batch, rounds = 2000, 100
	best, now := 0.0, time.Duration(0)
	for round := range rounds {
		start := clock()
		for k := range batch {
			now += time.Millisecond
			s.Enqueue(now, sched.Invocation{ID: id, Flow: flows[(round*batch+k)*7919%n]})
			id++
			if c, ok := s.Next(now); ok {
				s.Done(now, c.Invocation, sched.Usage{Service: time.Duration(k%7+1) * time.Millisecond})
			}
		}
		if us := (clock() - start).Seconds() * 1e6 / batch; best == 0 || us < best {
			best = us
		}
	}
	return best
}
