//go:build !nofigures

package sim

import (
	"fmt"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// frontierDrawing sets latency against fairness: what a larger window buys,
// and where each policy stands.
func frontierDrawing(c *cells) drawing {
	windows := []float64{0, 1, 2, 5, 10, 20, 50}
	track := func(policy string) (out []int) {
		for _, t := range windows {
			out = append(out, c.zipf(policy, pool(16), overrun(seconds(t))))
		}
		return out
	}
	a, b := track(mqfq), track(plus)
	rivals := []string{"fcfs", "batch", "paella", "sjf", "eevdf"}
	var points []int
	for _, policy := range rivals {
		points = append(points, c.zipf(policy, pool(16)))
	}
	return drawing{"frontier", func(at seedReader) (*page, error) {
		p := chart("Fairness and latency, Zipf, 16 containers; T from 0 to 50 s along a line", "mean gap between backlogged functions, s per 30 s", "mean latency, s")
		logY(p)
		for i, l := range []struct {
			name  string
			cells []int
		}{{mqfq, a}, {plus, b}} {
			if err := trail(p, at, l.name, l.cells, tint(l.name, i)); err != nil {
				return nil, err
			}
		}
		for i, policy := range rivals {
			if err := trail(p, at, policy, points[i:i+1], tint(policy, i)); err != nil {
				return nil, err
			}
		}
		low := plotter.NewFunction(func(float64) float64 { return positive(p, spread(at(a[4]), bound).Median) })
		low.Color, low.Dashes = boundTint, dashes(1)
		p.Add(low)
		p.legend.Add("lower bound", low)
		p.Y.Min = 1
		return p, nil
	}}
}

// trail draws medians of (gap, latency) as dots joined in order.
func trail(p *page, at seedReader, name string, list []int, tint color.Color) error {
	var xy plotter.XYs
	for _, cell := range list {
		rs := at(cell)
		gap := spread(rs, func(r *Result) float64 { return r.GapBacklogged.Mean })
		xy = append(xy, plotter.XY{X: gap.Median, Y: positive(p, spread(rs, mean).Median)})
	}
	line, dots, err := plotter.NewLinePoints(xy)
	if err != nil {
		return err
	}
	line.Color, dots.Color = tint, tint
	dots.Shape, dots.Radius = draw.CircleGlyph{}, vg.Points(3)
	p.Add(line, dots)
	p.legend.Add(name, line, dots)
	return nil
}

// ablationParts are sticky-plus with one part taken away, and MQFQ-Sticky with
// one part added.
func ablationParts(c *cells) (labels []string, list []int) {
	no, yes := false, true
	part := func(label, policy string, mods ...mod) {
		labels = append(labels, label)
		list = append(list, c.zipf(policy, append(mods, pool(16))...))
	}
	flag := func(f func(*Overrides) **bool, v *bool) mod { return func(o *Overrides, _ *Spec) { *f(o) = v } }
	part("mqfq-sticky", mqfq)
	part("+protect", mqfq, retain("protect-lru"))
	part("+demand", mqfq, retain("demand"))
	part("+wait", mqfq, flag(func(o *Overrides) **bool { return &o.Wait }, &yes))
	part("+correct", mqfq, flag(func(o *Overrides) **bool { return &o.Correct }, &yes))
	part("+shortest", mqfq, flag(func(o *Overrides) **bool { return &o.Shortest }, &yes))
	part("+next", mqfq, prefetching("both"))
	part("sticky-plus", plus)
	part("-demand", plus, retain("lru"))
	part("-wait", plus, flag(func(o *Overrides) **bool { return &o.Wait }, &no))
	part("-correct", plus, flag(func(o *Overrides) **bool { return &o.Correct }, &no))
	part("-shortest", plus, flag(func(o *Overrides) **bool { return &o.Shortest }, &no))
	part("-next", plus, prefetching("active"))
	return labels, list
}

func prefetching(word string) mod { return func(o *Overrides, _ *Spec) { o.Prefetch = &word } }

func ablationDrawing(c *cells) drawing {
	labels, list := ablationParts(c)
	return drawing{"ablation", func(at seedReader) (*page, error) {
		p := chart("Parts of sticky-plus, Zipf, load 0.7, 16 containers", "part added to mqfq-sticky, or taken from sticky-plus", "mean latency over mqfq-sticky's")
		base := at(list[0])
		v := make([]float64, len(list))
		for i, cell := range list {
			rs := at(cell)
			r := make([]float64, len(rs))
			for s := range rs {
				r[s] = over(rs[s], base[s])
			}
			v[i] = SpreadOf(r).Median
		}
		low := make([]float64, len(base))
		for s := range base {
			low[s] = ratio(base[s].bounded(), base[s].Latency.Mean)
		}
		slanted(p)
		colors := make([]color.Color, len(labels))
		for i := range colors {
			colors[i] = tints[mqfq]
			if i >= slices.Index(labels, plus) {
				colors[i] = tints[plus]
			}
		}
		if err := bars(p, labels, v, colors); err != nil {
			return nil, err
		}
		line := plotter.NewFunction(func(float64) float64 { return SpreadOf(low).Median })
		line.Color, line.Dashes = boundTint, dashes(1)
		p.Add(line)
		p.legend.Add("lower bound", line)
		return p, nil
	}}
}

// slanted writes the labels of an axis aslant, where they are long.
func slanted(p *page) {
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = 0.7, draw.XRight, draw.YCenter
}

// rareDrawing is what a rare call waits for behind a crowd, under each policy.
func rareDrawing(c *cells) drawing {
	var policies []string
	var list []int
	for _, policy := range PolicyNames() {
		if !policyInfo(policy).NoPool {
			policies, list = append(policies, policy), append(list, rareCell(c, policy))
		}
	}
	return drawing{"rare", func(at seedReader) (*page, error) {
		p := chart("A call a minute behind a hundred busy functions, cold starts of all included", "", "its mean latency, s")
		v, colors := make([]float64, len(list)), make([]color.Color, len(list))
		for i, cell := range list {
			v[i], colors[i] = spread(at(cell), ofTheRare).Median, tints[policies[i]]
		}
		slanted(p)
		return p, bars(p, policies, v, colors)
	}}
}

// adversaryDrawing is what honest functions wait for under an adversary.
func adversaryDrawing(c *cells) drawing {
	attacks := []string{"hog", "liar", "onoff", "tiny"}
	policies := []string{"fcfs", mqfq, plus, "sjf"}
	rows := make([][]int, len(policies))
	for i, policy := range policies {
		for _, a := range attacks {
			rows[i] = append(rows[i], c.kind(a, policy, load(0.5)))
		}
	}
	return drawing{"adversaries", func(at seedReader) (*page, error) {
		p := chart("The honest functions beside an adversary, load 0.5 without it", "adversary", "mean latency, s")
		logY(p)
		var curves []curve
		for i, policy := range policies {
			cv := curve{name: policy}
			for x, cell := range rows[i] {
				cv.x = append(cv.x, float64(x))
				cv.y = append(cv.y, spread(at(cell), honest))
			}
			curves = append(curves, cv)
		}
		p.X.Min, p.X.Max = -0.5, float64(len(attacks))-0.5
		p.NominalX(attacks...)
		return p, add(p, dodged(curves)...)
	}}
}

// honest is the mean latency over activations of all but the adversary: the
// functions of the catalogue.
func honest(r *Result) float64 {
	sum, n := 0.0, 0
	for _, f := range r.Functions {
		if f.Name == "hog" || f.Name == "liar" || f.Name == "onoff" || len(f.Name) > 5 && f.Name[:5] == "tiny-" {
			continue
		}
		sum += f.Latency.Mean * float64(f.Latency.Count)
		n += f.Latency.Count
	}
	return share(sum, n) / 1000
}

const costFigure = "cost"

// costDrawing measures what one activation costs its policy against the number
// of backlogged flows.
func costDrawing(clock func() time.Duration) drawing {
	return drawing{costFigure, func(seedReader) (*page, error) {
		p := chart("Cost of enqueue, next and done of one activation, where this was drawn", "backlogged flows", "microseconds")
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
		x := []float64{10, 100, 1000, 10_000, 100_000}
		var curves []curve
		for _, policy := range []string{mqfq, plus, "fcfs", "paella"} {
			cv := curve{name: policy, x: x, bare: true}
			for _, n := range x {
				us, err := decisionCost(policy, int(n), clock)
				if err != nil {
					return nil, err
				}
				cv.y = append(cv.y, Spread{Median: us})
			}
			curves = append(curves, cv)
		}
		p.Y.Min = 0
		return p, add(p, curves...)
	}}
}

// decisionCost returns microseconds per activation with n backlogged flows:
// the best of many short rounds, which the machine's other work disturbs least.
func decisionCost(policy string, n int, clock func() time.Duration) (float64, error) {
	cfg, ok := sched.Defaults(policy)
	if !ok {
		return 0, fmt.Errorf("no policy %s", policy)
	}
	cfg.MaxFlows = max(cfg.MaxFlows, n)
	s, err := sched.NewPolicy(policy, cfg, nil)
	if err != nil {
		return 0, err
	}
	s.AddDevice(0, 0, 2)
	flows := make([]sched.FlowID, n)
	id := uint64(0)
	for i := range flows {
		flows[i] = sched.FlowID{Namespace: "cost", Function: fmt.Sprint("f", i)}
		for range 2 {
			s.Enqueue(0, sched.Item{ID: id, Flow: flows[i]})
			id++
		}
	}
	const batch, rounds = 2000, 100
	best, now := 0.0, time.Duration(0)
	for round := range rounds {
		start := clock()
		for k := range batch {
			now += time.Millisecond
			s.Enqueue(now, sched.Item{ID: id, Flow: flows[(round*batch+k)*7919%n]})
			id++
			if c, ok := s.Next(now); ok {
				s.Done(now, c.Item, sched.Usage{Service: time.Duration(k%7+1) * time.Millisecond})
			}
		}
		if us := (clock() - start).Seconds() * 1e6 / batch; best == 0 || us < best {
			best = us
		}
	}
	return best, nil
}
