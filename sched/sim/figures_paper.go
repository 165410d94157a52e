//go:build !nofigures

package sim

import (
	"errors"
	"fmt"
	"image/color"
	"slices"
	"sort"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// allDrawings lists the paper's figures, then ours.
func allDrawings(c *cells, clock func() time.Duration) []drawing {
	var out []drawing
	out = append(out, fairnessDrawings(c)...)
	out = append(out, loadDrawing(c), policyDrawing(c), functionDrawing(c), utilizationDrawing(c), traceDrawing(c))
	out = append(out, gpuDrawing(c), overrunDrawing(c), ttlDrawing(c), poolDrawing(c))
	return append(out, frontierDrawing(c), ablationDrawing(c), rareDrawing(c), adversaryDrawing(c), costDrawing(clock))
}

// fairnessDrawings are the service of four copies over time, and the gap
// between functions over time beside its bound.
func fairnessDrawings(c *cells) []drawing {
	ten := lasting(10 * time.Minute)
	still := with(func(o *Overrides) { zero := time.Duration(0); o.Drain = &zero })
	var out []drawing
	for _, policy := range []string{mqfq, "fcfs"} {
		cell := c.kind("copies", policy, ten, still)
		out = append(out, drawing{"fairness-" + policy, func(at seedReader) (*page, error) {
			p := chart("Service of four copies of a function, two from minute 5 on: "+policy, "minute", "seconds of GPU per 30 s")
			r := at(cell)[0]
			var curves []curve
			for i, f := range r.Functions {
				curves = append(curves, curve{name: f.Name, bare: true, x: minutes(r), y: series(r, func(row []float64) float64 { return row[i] })})
			}
			return p, add(p, curves...)
		}})
	}
	m, f := c.zipf(mqfq, load(seriesLoad)), c.zipf("fcfs", load(seriesLoad))
	gap := func(row []float64) float64 { return slices.Max(row) - slices.Min(row) }
	return append(out, drawing{"gap", func(at seedReader) (*page, error) {
		p := chart("Gap between the most and the least served of 24 functions", "minute", "seconds per 30 s")
		a, b := at(m)[0], at(f)[0]
		limit := curve{name: "derived bound (MQFQ)", bare: true, dashed: true, x: minutes(a), y: series(a, func([]float64) float64 { return a.GapBound })}
		return p, add(p, curve{name: mqfq, bare: true, x: minutes(a), y: series(a, gap)},
			curve{name: "fcfs", bare: true, x: minutes(b), y: series(b, gap)}, limit)
	}})
}

// minutes are the middles of a result's windows within 30 minutes.
func minutes(r *Result) []float64 {
	x := make([]float64, min(len(r.Series), 60))
	for i := range x {
		x[i] = (float64(i) + 0.5) / 2
	}
	return x
}

func series(r *Result, f func([]float64) float64) []Spread {
	y := make([]Spread, min(len(r.Series), 60))
	for i := range y {
		y[i].Median = f(r.Series[i])
	}
	return y
}

func loadDrawing(c *cells) drawing {
	loads := []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 0.95}
	cellsOf := func(policy string) (out []int) {
		for _, l := range loads {
			out = append(out, c.zipf(policy, load(l)))
		}
		return out
	}
	f, m, s := cellsOf("fcfs"), cellsOf(mqfq), cellsOf(plus)
	return drawing{"load", func(at seedReader) (*page, error) {
		p := chart("Latency against load, 24 functions, Zipf", "load, share of capacity", "mean latency, s")
		logY(p)
		return p, add(p, row(at, mqfq, loads, m, mean), row(at, "fcfs", loads, f, mean), row(at, plus, loads, s, mean), least(at, loads, m))
	}}
}

func policyDrawing(c *cells) drawing {
	x := []float64{1, 2, 3}
	policies := []string{mqfq, plus, "fcfs", "batch", "sjf", "eevdf", "paella", "mqfq", "naive"}
	var rows [][]int
	for _, policy := range policies {
		var r []int
		for _, d := range x {
			r = append(r, c.medium(policy, tokens(int(d))))
		}
		rows = append(rows, r)
	}
	return drawing{"policies", func(at seedReader) (*page, error) {
		p := chart("Policies on the medium trace", "D, runs in flight", "mean latency, s")
		logY(p)
		p.X.Tick.Marker, p.X.Min, p.X.Max = whole(x), 0.5, 3.5
		var curves []curve
		for i, policy := range policies {
			curves = append(curves, row(at, policy, x, rows[i], mean))
		}
		if err := add(p, dodged(curves)...); err != nil {
			return nil, err
		}
		return p, level(p, least(at, x, rows[0]))
	}}
}

// whole labels an axis at the given values alone.
func whole(x []float64) plot.ConstantTicks {
	var t plot.ConstantTicks
	for _, v := range x {
		t = append(t, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
	}
	return t
}

// functionDrawing is each function's mean latency with its deviation, of one
// seed, functions in order of their mean under the paper's policy.
func functionDrawing(c *cells) drawing {
	policies := []string{mqfq, "fcfs", "batch", plus}
	var list []int
	for _, policy := range policies {
		list = append(list, c.medium(policy))
	}
	return drawing{"functions", func(at seedReader) (*page, error) {
		p := chart("Latency of each function, medium trace", "function, in order of its mean under mqfq-sticky", "mean and standard deviation, s")
		order := at(list[0])[0].Functions
		rank := make([]int, len(order))
		for i := range rank {
			rank[i] = i
		}
		sort.SliceStable(rank, func(i, j int) bool { return order[rank[i]].Latency.Mean < order[rank[j]].Latency.Mean })
		var curves []curve
		for i, policy := range policies {
			cv := curve{name: policy}
			for x, fn := range rank {
				l := at(list[i])[0].Functions[fn].Latency
				cv.x = append(cv.x, float64(x+1))
				m, d := l.Mean/1000, l.Std/1000
				cv.y = append(cv.y, Spread{Median: m, Q10: max(0, m-d), Q90: m + d})
			}
			curves = append(curves, cv)
		}
		return p, add(p, dodged(curves)...)
	}}
}

func utilizationDrawing(c *cells) drawing {
	var list []int
	for d := 1; d <= 3; d++ {
		list = append(list, c.medium(mqfq, tokens(d), recorded()))
	}
	return drawing{"utilization", func(at seedReader) (*page, error) {
		p := chart("Device utilization, medium trace, mqfq-sticky", "minute", "share of time with a run")
		var curves []curve
		for i, cell := range list {
			r := at(cell)[0]
			cv := curve{name: fmt.Sprintf("D=%d", i+1), bare: true, x: minutes(r)}
			for w := range cv.x {
				cv.y = append(cv.y, Spread{Median: r.Busy[w]})
			}
			curves = append(curves, cv)
		}
		p.Y.Min, p.Y.Max = 0, 1.15
		return p, add(p, curves...)
	}}
}

// traceDrawing is the nine samples, each policy's mean over the paper's.
func traceDrawing(c *cells) drawing {
	policies := []string{mqfq, "fcfs", plus, "eevdf"}
	x := []float64{0, 1, 2, 3, 4, 5, 6, 7, 8}
	rows := make([][]int, len(policies))
	for i, policy := range policies {
		for id := range x {
			rows[i] = append(rows[i], c.trace(id, policy))
		}
	}
	return drawing{"traces", func(at seedReader) (*page, error) {
		p := chart("The nine samples, mean latency over that of mqfq-sticky", "sample", "ratio")
		logY(p)
		p.X.Tick.Marker, p.X.Min, p.X.Max = whole(x), -0.5, 8.5
		var curves []curve
		for i, policy := range policies[1:] {
			curves = append(curves, normalized(at, policy, x, rows[i+1], rows[0], mean))
		}
		if err := add(p, dodged(curves)...); err != nil {
			return nil, err
		}
		return p, level(p, normalized(at, "lower bound", x, rows[0], rows[0], bound))
	}}
}

// normalized is a curve of ratios to the mean of other cells, seed by seed.
func normalized(at seedReader, name string, x []float64, mine, base []int, f func(*Result) float64) curve {
	c := curve{name: name, x: x}
	for i := range mine {
		a, b := at(mine[i]), at(base[i])
		v := make([]float64, len(a))
		for s := range a {
			v[s] = ratio(f(a[s]), mean(b[s]))
		}
		c.y = append(c.y, SpreadOf(v))
	}
	return c
}

func gpuDrawing(c *cells) drawing {
	x := []float64{1, 2, 3}
	var one, two []int
	for _, d := range x {
		one = append(one, c.trace(6, mqfq, tokens(int(d))))
		two = append(two, c.trace(6, mqfq, tokens(int(d)), devices(2)))
	}
	return drawing{"gpus", func(at seedReader) (*page, error) {
		p := chart("One and two GPUs, high-load trace, mqfq-sticky", "D, runs in flight per device", "mean latency, s")
		logY(p)
		p.X.Tick.Marker, p.X.Min, p.X.Max = whole(x), 0.5, 3.5
		if err := add(p, dodged([]curve{row(at, "one GPU", x, one, mean), row(at, "two GPUs", x, two, mean)})...); err != nil {
			return nil, err
		}
		low, low2 := least(at, x, one), least(at, x, two)
		low.name, low2.name = "lower bound, one GPU", "lower bound, two GPUs"
		return p, errors.Join(level(p, low), level(p, low2))
	}}
}

func overrunDrawing(c *cells) drawing {
	x := []float64{0, 1, 2, 5, 10, 20, 35, 50}
	var own, flat, better []int
	for _, t := range x {
		d := overrun(seconds(t))
		own = append(own, c.medium(mqfq, d))
		flat = append(flat, c.medium(mqfq, d, charged(time.Second)))
		better = append(better, c.medium(plus, d))
	}
	return drawing{"overrun", func(at seedReader) (*page, error) {
		p := chart("Overrun T, medium trace", "T, s", "mean latency, s")
		logY(p)
		return p, add(p, row(at, "mqfq-sticky", x, own, mean),
			row(at, "mqfq-sticky, 1.0 charged", x, flat, mean),
			row(at, plus, x, better, mean), least(at, x, own))
	}}
}

func ttlDrawing(c *cells) drawing {
	x := []float64{0, 0.1, 0.5, 1, 2, 3, 4}
	eager := []mod{retain("flow-lru"), headroom(15 * gib)}
	var own, global, fixed []int
	for _, v := range x {
		own = append(own, c.medium(mqfq, both(eager, alpha(v), leastTTL(0))...))
		global = append(global, c.medium(mqfq, both(eager, alpha(v), leastTTL(0), globalTTL())...))
		fixed = append(fixed, c.medium(mqfq, both(eager, ttlOf(seconds(v)))...))
	}
	return drawing{"ttl", func(at seedReader) (*page, error) {
		p := chart("Keep-alive of idle flows, medium trace, swapped out when inactive", "alpha, or the fixed TTL in s", "mean latency, s")
		logY(p)
		return p, add(p, row(at, "alpha x own inter-arrival time", x, own, mean),
			row(at, "alpha x a global one", x, global, mean),
			row(at, "one fixed TTL", x, fixed, mean), least(at, x, own))
	}}
}

func poolDrawing(c *cells) drawing {
	x := []float64{4, 6, 8, 12, 16, 24, 32}
	type line struct {
		policy string
		d      int
	}
	lines := []line{{mqfq, 1}, {mqfq, 2}, {mqfq, 3}, {"fcfs", 1}, {"fcfs", 2}, {plus, 2}}
	rows := make([][]int, len(lines))
	for i, l := range lines {
		for _, n := range x {
			rows[i] = append(rows[i], c.medium(l.policy, tokens(l.d), pool(int(n))))
		}
	}
	return drawing{"pool", func(at seedReader) (*page, error) {
		p := chart("Cold starts against the size of the pool, medium trace", "containers", "cold starts, %")
		p.X.Tick.Marker = whole(x)
		var curves []curve
		for i, l := range lines {
			curves = append(curves, row(at, fmt.Sprintf("%s, D=%d", l.policy, l.d), x, rows[i], func(r *Result) float64 { return 100 * r.ColdShare }))
		}
		return p, add(p, curves...)
	}}
}

// bars draws one bar for each label, each in a colour of its own.
func bars(p *page, labels []string, values []float64, tints []color.Color) error {
	for i := range labels {
		b, err := plotter.NewBarChart(plotter.Values{values[i]}, vg.Points(float64(270)/float64(len(labels))))
		if err != nil {
			return err
		}
		b.XMin, b.Color, b.LineStyle.Width = float64(i), tints[i], 0
		p.Add(b)
	}
	p.X.Min, p.X.Max = -0.5, float64(len(labels))-0.5
	p.NominalX(labels...)
	return nil
}
