package sim

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// gaps measures fairness: in each window the difference between the most and
// the least device time that flows received over their weights. The bound
// concerns flows backlogged through the whole window; the paper's figure takes
// all of them.
type gaps struct {
	window  time.Duration
	end     time.Duration   // of the present window
	before  []time.Duration // service of each function at its start
	backlog summary         // over flows backlogged through the window
	all     summary         // over all flows that have arrived
	series  [][]float64     // seconds per window and function, if kept
	busy    []float64       // share of device time with a run, per window, if kept
	active  time.Duration   // of all devices at the window's start
	keep    bool
	costs   []time.Duration // largest charge of each function
}

// summary is the mean and the maximum of window gaps, in seconds.
type summary struct {
	n   int
	sum float64
	max float64
}

func (s *summary) add(v float64) {
	s.n++
	s.sum += v
	s.max = max(s.max, v)
}

func (s summary) mean() float64 {
	if s.n == 0 {
		return 0
	}
	return s.sum / float64(s.n)
}

func (g *gaps) init(functions int, p Params) {
	g.window, g.end = p.Window, p.Window
	g.before = make([]time.Duration, functions)
	g.costs = make([]time.Duration, functions)
	g.keep = p.Series
}

// charged remembers the largest charge of a function, in service units.
func (g *gaps) charged(fn int32, d time.Duration) { g.costs[fn] = max(g.costs[fn], d) }

// windows closes every window that ends before the next event.
func (e *engine) windows(next time.Duration) {
	for e.gaps.end <= next {
		if e.gaps.end > e.w.Horizon && !e.gaps.keep && e.done == len(e.jobs) {
			return
		}
		e.now = max(e.now, e.gaps.end)
		for _, d := range e.devices {
			e.advance(d)
		}
		e.closeWindow()
		e.gaps.end += e.gaps.window
	}
}

func (e *engine) closeWindow() {
	g := &e.gaps
	start := g.end - g.window
	var row []float64
	if g.keep {
		row = make([]float64, len(e.fns))
	}
	lo, hi, n := 0.0, 0.0, 0
	most := 0.0
	for i := range e.fns {
		f := &e.fns[i]
		weight := f.spec.Weight
		if weight == 0 {
			weight = 1
		}
		s := (f.service - g.before[i]).Seconds() / weight
		g.before[i] = f.service
		if row != nil {
			row[i] = s
		}
		most = max(most, s)
		if f.queued == 0 || f.backlog > start {
			continue
		}
		if n == 0 || s < lo {
			lo = s
		}
		if n == 0 || s > hi {
			hi = s
		}
		n++
	}
	if n > 1 {
		g.backlog.add(hi - lo)
	}
	if g.end <= e.w.Horizon {
		g.all.add(most) // some flow received nothing, or nearly
	}
	if row != nil {
		g.series = append(g.series, row)
		g.busy = append(g.busy, e.busyShare())
	}
}

// busyShare returns the share of the window's device time with a run.
func (e *engine) busyShare() float64 {
	var sum time.Duration
	for _, d := range e.devices {
		sum += d.active
	}
	was := e.gaps.active
	e.gaps.active = sum
	return (sum - was).Seconds() / e.gaps.window.Seconds() / float64(len(e.devices))
}

// bound returns the derived limit on the gap of two backlogged flows in
// seconds, for the two largest costs charged or used over their weights.
func (e *engine) bound() float64 {
	a, b := time.Duration(0), time.Duration(0)
	for i := range e.fns {
		c := max(e.gaps.costs[i], e.fns[i].largest)
		if w := e.fns[i].spec.Weight; w > 0 {
			c = time.Duration(float64(c) / w)
		}
		if c > a {
			a, b = c, a
		} else if c > b {
			b = c
		}
	}
	return sched.GapBound(e.p.Sched.MaxOverrun(), e.p.Tokens.Max*e.p.Devices, a, 1, b, 1).Seconds()
}
