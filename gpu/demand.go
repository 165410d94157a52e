package gpu

import (
	"math"
	"time"
)

// Clock measures the demand of all flows alike. Rates are counts that fade over a
// window, which follows a change of popularity without the jitter of a single
// interval.
type Clock struct {
	window time.Duration // over which an arrival fades to 1/e of its weight
	start  time.Duration
}

// Demand learns how often a flow is invoked. The zero value has seen none.
type Demand struct {
	count float64
	at    time.Duration // count is as of this time
}

// ColdStart learns how long the cold starts of a function take from the token to the
// run: container creation and initialization. The zero value has seen none.
type ColdStart struct {
	took  mean // seconds
	known bool
}

// DefaultDemandWindow is long enough that a function called every few minutes
// keeps a rate, and short against the day.
const DefaultDemandWindow = 10 * time.Minute

// NewClock returns a clock whose measure starts now; a window of 0 or less takes
// the default.
func NewClock(now, window time.Duration) *Clock {
	if window <= 0 {
		window = DefaultDemandWindow
	}
	return &Clock{window: window, start: now}
}

// Arrived counts one activation of a flow.
func (c *Clock) Arrived(now time.Duration, d *Demand) {
	d.count = d.count*c.fade(now-d.at) + 1
	d.at = now
}

// Add takes one cold start.
func (c *ColdStart) Add(took time.Duration) {
	c.took.add(took.Seconds())
	c.known = true
}

// Prior is what is expected of a newer revision of the function until it has had a
// cold start of its own.
func (c *ColdStart) Prior() ColdStart {
	return ColdStart{took: mean{value: c.took.value}, known: c.known}
}

// Expected returns the seconds that a cold start is expected to take. One that was
// never seen is taken to cost a second.
func (c *ColdStart) Expected() float64 {
	if c.known {
		return c.took.value
	}
	return 1
}

// Rate returns arrivals per second of a flow.
func (c *Clock) Rate(now time.Duration, d *Demand) float64 {
	// The integral of the fading weight since the start: what one arrival per
	// second would have counted to by now.
	seen := max(1, c.window.Seconds()*(1-c.fade(now-c.start)))
	return d.count * c.fade(now-d.at) / seen
}

func (c *Clock) fade(elapsed time.Duration) float64 {
	return math.Exp(-elapsed.Seconds() / c.window.Seconds())
}

// Footprint learns how much device memory the runs of a function need: the most
// of the last runs, which is about their 95th percentile, and falls after a while
// when the function needs less. The zero value has seen none.
type Footprint struct {
	recent [footprints]int64
	seen   int
}

// footprints is how many runs are remembered: the largest of n is exceeded by
// the next one about once in n+1 times.
const footprints = 19

// Add takes the peak of one run.
func (f *Footprint) Add(bytes int64) {
	f.recent[f.seen%footprints] = max(bytes, 0)
	f.seen++
	if f.seen == 2*footprints {
		f.seen = footprints
	}
}

// Bytes returns what the next run will need; false if no run was seen.
func (f *Footprint) Bytes() (int64, bool) {
	most := int64(0)
	for _, n := range f.recent {
		most = max(most, n)
	}
	return most, f.seen > 0
}
