package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// figure is one picture: the name of its file, its texts and its curves.
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

// curve is a row of figures, made from the results of its runs by seed. Its name
// begins with its policy's, if it is of one.
type curve struct {
	name   string
	style  style
	runs   runs
	points func(r [][]*Result) (x []float64, y []Spread)
}

// row is a curve with a point for each value of x: the figure f of the run in which
// the value replaces X.
func row(name string, s style, x []float64, run string, f func(*Result) float64) curve {
	return along(name, s, x, at(x, run), f)
}

// along is a curve with a point for each run: the figure f of it, at its value of x.
func along(name string, s style, x []float64, each runs, f func(*Result) float64) curve {
	return curve{name, s, each, func(r [][]*Result) ([]float64, []Spread) {
		var y []Spread
		for _, bySeed := range r {
			y = append(y, spread(bySeed, f))
		}
		return x, y
	}}
}

// normalized is a row of f over the mean latency of a base, seed by seed; in both
// runs the value of x replaces X.
func normalized(name string, s style, x []float64, run, base string, f func(*Result) float64) curve {
	return curve{name, s, slices.Concat(at(x, run), at(x, base)), func(r [][]*Result) ([]float64, []Spread) {
		var y []Spread
		for i := range x {
			y = append(y, ratios(r[i], r[len(x)+i], f))
		}
		return x, y
	}}
}

// at lists a run once for each value of x, which replaces X.
func at(x []float64, run string) (out runs) {
	for _, v := range x {
		out = append(out, strings.ReplaceAll(run, "X", fmt.Sprint(v)))
	}
	return out
}

// overTime is a curve over the windows of the first seed, half an hour at most.
func overTime(name string, s style, run string, f func(r *Result, window int) float64) curve {
	return curve{name, s, runs{run}, func(r [][]*Result) (x []float64, y []Spread) {
		first := r[0][0]
		for w := range min(len(first.Series), 60) {
			x, y = append(x, (float64(w)+0.5)/2), append(y, Spread{Median: f(first, w)})
		}
		return x, y
	}}
}

// each is a row of mean latencies for every policy, with its name in place of
// POLICY in the run.
func each(s style, x []float64, run string, policies ...string) (out []curve) {
	for _, p := range policies {
		out = append(out, row(p, s, x, strings.ReplaceAll(run, "POLICY", p), mean))
	}
	return out
}

// CheckFigures names the flag where no figure's name begins with one of only.
func CheckFigures(only []string) error {
	if !slices.ContainsFunc(figures(nil), func(f figure) bool { return begins(f.name, only) }) {
		return fmt.Errorf("--only %s: no figure begins so", strings.Join(only, ","))
	}
	return nil
}

// Figures draws every figure whose name begins with one of only, or all, into
// a folder as SVG and returns the files' names. clock measures what decisions
// cost, for the one figure about it; nothing else depends on it.
func Figures(ctx context.Context, folder string, only []string, seeds, parallel int, clock Clock, progress Progress) ([]string, error) {
	if err := errors.Join(CheckSeeds(seeds), CheckFigures(only)); err != nil {
		return nil, err
	}
	wanted := slices.DeleteFunc(figures(clock), func(f figure) bool { return !begins(f.name, only) })
	var needed runs
	for _, f := range wanted {
		for _, c := range f.curves {
			needed = append(needed, c.runs...)
		}
	}
	results, err := runTexts(ctx, needed, seeds, parallel, progress)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range wanted {
		file := filepath.Join(folder, f.name+".svg")
		if err := draw(f, results, file); err != nil {
			return nil, fmt.Errorf("draw %s: %w", file, err)
		}
		names = append(names, file)
	}
	return names, nil
}

// of returns the points of a curve from the results of all runs.
func (c curve) of(results map[string][]*Result) ([]float64, []Spread) {
	r := make([][]*Result, len(c.runs))
	for i, text := range c.runs {
		r[i] = results[text]
	}
	return c.points(r)
}

// figures lists the paper's figures, then ours.
func figures(clock Clock) []figure {
	return slices.Concat(fairnessFigures(), latencyFigures(), parameterFigures(),
		[]figure{frontierFigure(), ablationFigure(), rareFigure(), adversaryFigure(), costFigure(clock)})
}

// fairnessFigures are the service of four copies over time, and the gap
// between functions over time beside its bound.
func fairnessFigures() (out []figure) {
	for _, policy := range []string{mqfq, "fcfs"} {
		f := figure{name: "fairness-" + policy, title: "Service of four copies of a function, two from minute 5 on: " + policy, x: "minute", y: "seconds of GPU per 30 s"}
		for i, name := range []string{"low-1", "high-1", "low-2", "high-2"} {
			f.curves = append(f.curves, overTime(name, plain, "copies "+policy+" duration=10m drain=0s series",
				func(r *Result, w int) float64 { return r.Series[w][i] }))
		}
		out = append(out, f)
	}
	const run = " load=0.9 series"
	gap := func(r *Result, w int) float64 { return slices.Max(r.Series[w]) - slices.Min(r.Series[w]) }
	return append(out, figure{
		name: "gap", title: "Gap between the most and the least served of 24 functions", x: "minute", y: "seconds per 30 s",
		curves: []curve{
			overTime(mqfq, plain, zipfMQFQ+run, gap),
			overTime("fcfs", plain, "zipf fcfs"+run, gap),
			overTime("derived bound (MQFQ)", limit, zipfMQFQ+run, func(r *Result, _ int) float64 { return r.GapBound }),
		},
	})
}

// latencyFigures compare policies.
func latencyFigures() []figure {
	loads, ds, samples := []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 0.95}, []float64{1, 2, 3}, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8}
	return []figure{
		{
			name: "load", title: "Latency against load, 24 functions, Zipf", x: "load, share of capacity", y: "mean latency, s", logY: true,
			curves: append(each(lines, loads, "zipf POLICY load=X", mqfq, "fcfs", plus),
				row("lower bound", limit, loads, zipfMQFQ+" load=X", bound)),
		}, {
			name: "policies", title: "Policies on the medium trace", x: "D, runs in flight", y: "mean latency, s", logY: true, ticks: ds,
			curves: append(each(dots, ds, "azure POLICY tokens=X", mqfq, plus, "fcfs", "batch", "sjf", "eevdf", "paella", "mqfq", "naive"),
				row("lower bound", limits, ds, medium+" tokens=X", bound)),
		},
		functionFigure(),
		utilizationFigure(),
		{
			name: "traces", title: "The nine samples, mean latency over that of mqfq-sticky", x: "sample", y: "ratio", logY: true, ticks: samples,
			curves: []curve{
				normalized("fcfs", dots, samples, "azure fcfs trace-id=X", medium+" trace-id=X", mean),
				normalized(plus, dots, samples, "azure sticky-plus trace-id=X", medium+" trace-id=X", mean),
				normalized("eevdf", dots, samples, "azure eevdf trace-id=X", medium+" trace-id=X", mean),
				normalized("lower bound", limits, samples, medium+" trace-id=X", medium+" trace-id=X", bound),
			},
		}, {
			name: "gpus", title: "One and two GPUs, high-load trace, mqfq-sticky", x: "D, runs in flight per device", y: "mean latency, s", logY: true, ticks: ds,
			curves: []curve{
				row("one GPU", dots, ds, medium+" trace-id=6 tokens=X", mean), row("lower bound, one GPU", limits, ds, medium+" trace-id=6 tokens=X", bound),
				row("two GPUs", dots, ds, medium+" trace-id=6 tokens=X devices=2", mean), row("lower bound, two GPUs", limits, ds, medium+" trace-id=6 tokens=X devices=2", bound),
			},
		},
	}
}

// functionFigure is each function's mean latency with its deviation, of one
// seed, functions in order of their mean under the paper's policy.
func functionFigure() figure {
	f := figure{name: "functions", title: "Latency of each function, medium trace", x: "function, in order of its mean under mqfq-sticky", y: "mean and standard deviation, s"}
	for _, policy := range []string{mqfq, "fcfs", "batch", plus} {
		f.curves = append(f.curves, curve{policy, dots, runs{"azure " + policy, medium}, func(r [][]*Result) (x []float64, y []Spread) {
			mine, order := r[0][0].Functions, r[1][0].Functions
			var rank []int
			for i := range order {
				rank = append(rank, i)
			}
			slices.SortStableFunc(rank, func(a, b int) int { return cmp.Compare(order[a].Latency.Mean, order[b].Latency.Mean) })
			for i, fn := range rank {
				m, d := mine[fn].Latency.Mean/1000, mine[fn].Latency.Std/1000
				x, y = append(x, float64(i+1)), append(y, Spread{Median: m, Q10: max(0, m-d), Q90: m + d})
			}
			return x, y
		}})
	}
	return f
}

func utilizationFigure() figure {
	f := figure{name: "utilization", title: "Device utilization, medium trace, mqfq-sticky", x: "minute", y: "share of time with a run", maxY: 1.15}
	for d := 1; d <= 3; d++ {
		f.curves = append(f.curves, overTime(fmt.Sprintf("D=%d", d), plain, fmt.Sprintf(medium+" tokens=%d series", d), func(r *Result, w int) float64 { return r.Busy[w] }))
	}
	return f
}

// parameterFigures vary one parameter on the medium trace.
func parameterFigures() []figure {
	ts, ttls, sizes := []float64{0, 1, 2, 5, 10, 20, 35, 50}, []float64{0, 0.1, 0.5, 1, 2, 3, 4}, []float64{4, 6, 8, 12, 16, 24, 32}
	const own, fixed = medium + evicting + " ttl-alpha=X ttl-min=0s", medium + evicting + " ttl-min=Xs ttl-max=Xs"
	pool := figure{name: "pool", title: "Cold starts against the size of the pool, medium trace", x: "containers", y: "cold starts, %", ticks: sizes}
	for _, l := range []struct {
		policy string
		d      int
	}{{mqfq, 1}, {mqfq, 2}, {mqfq, 3}, {"fcfs", 1}, {"fcfs", 2}, {plus, 2}} {
		run := fmt.Sprintf("azure %s tokens=%d pool=X", l.policy, l.d)
		pool.curves = append(pool.curves, row(fmt.Sprintf("%s, D=%d", l.policy, l.d), lines, sizes, run, func(r *Result) float64 { return 100 * r.ColdShare }))
	}
	return []figure{
		{name: "overrun", title: "Overrun T, medium trace", x: "T, s", y: "mean latency, s", logY: true, curves: []curve{
			row(mqfq, lines, ts, medium+" overrun=Xs", mean),
			row("mqfq-sticky, 1.0 charged", lines, ts, medium+" overrun=Xs fixed-charge=1s", mean),
			row(plus, lines, ts, "azure sticky-plus overrun=Xs", mean),
			row("lower bound", limit, ts, medium+" overrun=Xs", bound),
		}},
		{name: "ttl", title: "Keep-alive of idle flows, medium trace, swapped out when inactive", x: "alpha, or the fixed TTL in s", y: "mean latency, s", logY: true, curves: []curve{
			row("alpha x own inter-arrival time", lines, ttls, own, mean),
			row("alpha x a global one", lines, ttls, own+" ttl-global", mean),
			row("one fixed TTL", lines, ttls, fixed, mean),
			row("lower bound", limit, ttls, own, bound),
		}},
		pool,
	}
}

// frontierFigure sets latency against fairness: what a larger window buys, and
// how each policy compares.
func frontierFigure() figure {
	f := figure{
		name: "frontier", title: "Fairness and latency, Zipf, 16 containers; T from 0 to 50 s along a line",
		x: "mean gap between backlogged functions, s per 30 s", y: "mean latency, s", logY: true, minY: 1,
	}
	medians := func(r [][]*Result, f func(*Result) float64) (v []float64) {
		for _, bySeed := range r {
			v = append(v, spread(bySeed, f).Median)
		}
		return v
	}
	gap := func(r *Result) float64 { return r.GapBacklogged.Mean }
	trail := func(r [][]*Result) (x []float64, y []Spread) {
		for _, m := range medians(r, mean) {
			y = append(y, Spread{Median: m})
		}
		return medians(r, gap), y
	}
	windows := []float64{0, 1, 2, 5, 10, 20, 50}
	for _, policy := range []string{mqfq, plus} {
		f.curves = append(f.curves, curve{policy, dotted, at(windows, "zipf "+policy+" pool=16 overrun=Xs"), trail})
	}
	for _, policy := range []string{"fcfs", "batch", "paella", "sjf", "eevdf"} {
		f.curves = append(f.curves, curve{policy, dotted, runs{"zipf " + policy + " pool=16"}, trail})
	}
	f.curves = append(f.curves, curve{"lower bound", limit, f.curves[0].runs, func(r [][]*Result) ([]float64, []Spread) {
		x, low := medians(r, gap), Spread{Median: medians(r, bound)[0]} // the same for all T
		return []float64{slices.Min(x), slices.Max(x)}, []Spread{low, low}
	}})
	return f
}

// ablationFigure is sticky-plus with one part taken away, and MQFQ-Sticky with
// one part added.
func ablationFigure() figure {
	f := figure{
		name: "ablation", title: "Parts of sticky-plus, Zipf, load 0.7, 16 containers",
		x: "part added to mqfq-sticky, or taken from sticky-plus", y: "mean latency over mqfq-sticky's",
	}
	const base = zipfMQFQ + " pool=16"
	for i, part := range []struct{ label, policy, flag string }{
		{mqfq, mqfq, ""},
		{"+protect", mqfq, " retention=protect-lru"},
		{"+demand", mqfq, " retention=demand"},
		{"+wait", mqfq, " wait"},
		{"+correct", mqfq, " correct"},
		{"+shortest", mqfq, " shortest"},
		{plus, plus, ""},
		{"-demand", plus, " retention=lru"},
		{"-wait", plus, " wait=false"},
		{"-correct", plus, " correct=false"},
		{"-shortest", plus, " shortest=false"},
	} {
		f.labels = append(f.labels, part.label)
		f.curves = append(f.curves, normalized(part.policy, bars, []float64{float64(i)}, "zipf "+part.policy+" pool=16"+part.flag, base, mean))
	}
	edges := []float64{-0.5, float64(len(f.labels)) - 0.5}
	f.curves = append(f.curves, normalized("lower bound", limit, edges, base, base, bound))
	return f
}

// rareFigure is what a rare call waits for behind a crowd, under each policy.
func rareFigure() figure {
	f := figure{name: "rare", title: "A call a minute behind a hundred busy functions, cold starts of all included", y: "its mean latency, s"}
	for _, p := range sched.Policies() {
		if !p.NoPool {
			f.curves = append(f.curves, row(p.Name, bars, []float64{float64(len(f.labels))}, "rare "+p.Name+rareServer, ofTheRare))
			f.labels = append(f.labels, p.Name)
		}
	}
	return f
}

// attacks are the workloads with an adversary, which has their name.
var attacks = []string{"hog", "liar", "onoff", "tiny"}

// adversaryFigure is the latency of the other functions beside an adversary.
func adversaryFigure() figure {
	f := figure{name: "adversaries", title: "The honest functions beside an adversary, load 0.5 without it", x: "adversary", y: "mean latency, s", logY: true, labels: attacks}
	for _, policy := range []string{"fcfs", mqfq, plus, "sjf"} {
		var x []float64
		var each runs
		for i, a := range attacks {
			x, each = append(x, float64(i)), append(each, a+" "+policy+" load=0.5")
		}
		f.curves = append(f.curves, along(policy, dots, x, each, honest))
	}
	return f
}

// honest is the mean latency over activations of all but the adversary: the
// functions of the catalogue.
func honest(r *Result) float64 {
	sum, n := 0.0, 0
	for _, f := range r.Functions {
		if name, _, _ := strings.Cut(f.Name, "-"); slices.Contains(attacks, name) {
			continue
		}
		sum += f.Latency.Mean * float64(f.Latency.Count)
		n += f.Latency.Count
	}
	return share(sum, n) / 1000
}
