package sim

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// gaps measures fairness: in each window, the difference between the largest and the smallest
// device time over weight among flows. The bound concerns flows that are backlogged throughout
// the window. The paper's figure includes all flows.
type gaps struct {
	end     time.Duration // of the present window
	backlog gapSum        // over flows backlogged through the window
	all     gapSum        // over all flows that have arrived
	series  [][]float64   // seconds per window and function, if kept
	busy    []float64     // share of device time with a run, per window, if kept
	active  time.Duration // of all devices at the window's start
}

// gapSum adds up the gaps of windows.
type gapSum struct {
	windows      int
	sum, largest float64
}

func (g *gapSum) add(gap float64) {
	g.windows++
	g.sum += gap
	g.largest = max(g.largest, gap)
}

func (g gapSum) result() Gap {
	return Gap{Windows: g.windows, Mean: share(g.sum, g.windows), Max: g.largest}
}

// windows closes every window that ends before the next event.
func (e *engine) windows(next time.Duration) {
	for e.gaps.end <= next {
		e.now = max(e.now, e.gaps.end)
		for _, d := range e.devices {
			e.advance(d)
		}
		e.closeWindow()
		e.gaps.end += e.p.Window
	}
}

func (e *engine) closeWindow() {
	g := &e.gaps
	row := make([]float64, len(e.fns))
	lo, hi, backlogged, most := 0.0, 0.0, 0, 0.0
	for i := range e.fns {
		f := &e.fns[i]
		s := (f.service - f.counted).Seconds() / f.weight()
		f.counted, row[i], most = f.service, s, max(most, s)
		if f.queued == 0 || f.backlog > g.end-e.p.Window {
			continue
		}
		if backlogged++; backlogged == 1 {
			lo, hi = s, s
		}
		lo, hi = min(lo, s), max(hi, s)
	}
	if backlogged > 1 {
		g.backlog.add(hi - lo)
	}
	if g.end <= e.w.Horizon {
		g.all.add(most) // some flow received nothing, or nearly
	}
	if e.p.Series {
		g.series = append(g.series, row)
		active := e.active()
		g.busy = append(g.busy, (active-g.active).Seconds()/e.p.Window.Seconds()/float64(len(e.devices)))
		g.active = active
	}
}

// active is the time with a run of all devices.
func (e *engine) active() (sum time.Duration) {
	for _, d := range e.devices {
		sum += d.active
	}
	return sum
}

// gapBound returns the derived limit on the gap of two backlogged flows in
// seconds, for the two largest costs charged or used over their weights.
func (e *engine) gapBound() float64 {
	a, b := time.Duration(0), time.Duration(0)
	for i := range e.fns {
		f := &e.fns[i]
		c := time.Duration(float64(f.largest) / f.weight())
		if c > a {
			a, b = c, a
		} else {
			b = max(b, c)
		}
	}
	return sched.GapBound(e.p.Sched.MaxOverrun(), e.p.Tokens.Max*e.p.GPUs, a, 1, b, 1).Seconds()
}
