package gpu

import (
	"math"
	"time"
)

// Demand learns, for each flow, how often it is asked for and what giving up
// its container costs. Rates are counts that fade over Window, which follows
// a change of popularity without the jitter of a single interval.
type Demand struct {
	// Window is the time over which an arrival fades to 1/e of its weight.
	window time.Duration
	start  time.Duration
	flows  map[string]*demand
}

type demand struct {
	count float64
	at    time.Duration // count is as of this time
	setup mean          // seconds from token to running of its cold starts
}

// DefaultDemandWindow is long enough that a function called every few minutes
// keeps a rate, and short against the day.
const DefaultDemandWindow = 10 * time.Minute

// NewDemand returns an empty estimate that starts now; a window of 0 or less
// takes the default.
func NewDemand(now, window time.Duration) *Demand {
	if window <= 0 {
		window = DefaultDemandWindow
	}
	return &Demand{window: window, start: now, flows: make(map[string]*demand)}
}

// Arrived counts one activation of a flow.
func (d *Demand) Arrived(now time.Duration, flow string) {
	f := d.of(flow)
	f.count = f.count*d.fade(now-f.at) + 1
	f.at = now
}

// Started learns from a cold start how long it took from the token to the
// run: container creation and initialization.
func (d *Demand) Started(flow string, setup time.Duration) {
	d.of(flow).setup.add(setup.Seconds())
}

// Rate returns arrivals per second of a flow.
func (d *Demand) Rate(now time.Duration, flow string) float64 {
	f, ok := d.flows[flow]
	if !ok {
		return 0
	}
	// The integral of the fading weight since the start: what one arrival per
	// second would have counted to by now.
	seen := d.window.Seconds() * (1 - d.fade(now-d.start))
	if seen < 1 {
		seen = 1
	}
	return f.count * d.fade(now-f.at) / seen
}

// Restart returns the seconds that a cold start is expected to take. A flow
// that never had one is taken to cost a second.
func (d *Demand) Restart(flow string) float64 {
	if f, ok := d.flows[flow]; ok && f.setup.n > 0 {
		return f.setup.value
	}
	return 1
}

// Forget drops a flow that is no more.
func (d *Demand) Forget(flow string) { delete(d.flows, flow) }

func (d *Demand) of(flow string) *demand {
	f, ok := d.flows[flow]
	if !ok {
		f = new(demand)
		d.flows[flow] = f
	}
	return f
}

func (d *Demand) fade(elapsed time.Duration) float64 {
	return math.Exp(-elapsed.Seconds() / d.window.Seconds())
}
