package gpu

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Demand learns how often a flow is invoked: its rate is a count that fades over
// demandWindow, which follows a change of popularity without the jitter of a single
// interval. The zero value has seen no activation.
type Demand struct {
	count float64
	asOf  time.Duration // count is as of this time
}

// ColdStart learns how long the cold starts of a function take from the token to the
// run: container creation and initialization. The zero value has seen none.
type ColdStart struct{ seconds mean }

// demandWindow is the time over which an arrival fades to 1/e of its weight: long
// enough that a function called every few minutes keeps a rate, and short against the
// day.
const demandWindow = 10 * time.Minute

// Arrived counts one activation of the flow.
func (d *Demand) Arrived(now time.Duration) {
	d.count = d.count*fade(now-d.asOf) + 1
	d.asOf = now
}

// Add takes one cold start.
func (c *ColdStart) Add(took time.Duration) { c.seconds.add(took.Seconds()) }

// Prior returns the estimate for a newer revision of the function, until that revision has had
// its own cold start.
func (c *ColdStart) Prior() ColdStart {
	return ColdStart{mean{value: c.seconds.value}}
}

// Expected returns the expected seconds of a cold start. Without an observation it returns one
// second.
func (c *ColdStart) Expected() float64 { return cmp.Or(c.seconds.value, 1) }

// Rate returns the flow's arrivals per second, where time began with 0.
func (d *Demand) Rate(now time.Duration) float64 {
	// The integral of the fading weight so far: the count that one arrival per second would
	// have reached by now.
	seen := max(1, demandWindow.Seconds()*(1-fade(now)))
	return d.count * fade(now-d.asOf) / seen
}

func fade(elapsed time.Duration) float64 {
	return math.Exp(-elapsed.Seconds() / demandWindow.Seconds())
}

// Footprint learns how much device memory the runs of a function need: the most
// of the last runs, which is about their 95th percentile, and falls after a while
// when the function needs less. The zero value has seen none.
type Footprint struct {
	most   int64 // the largest of recent
	seen   int
	recent [footprints]int64
}

// footprints is how many runs are remembered: the largest of n is exceeded by
// the next one about once in n+1 times.
const footprints = 19

// Add records the peak memory of one run.
func (f *Footprint) Add(bytes int64) {
	f.recent[f.seen%footprints] = max(bytes, 0)
	f.seen++
	if f.seen == 2*footprints {
		f.seen = footprints
	}
	f.most = slices.Max(f.recent[:])
}

// Bytes returns the expected memory of the next run; false if no run was observed.
func (f *Footprint) Bytes() (int64, bool) {
	return f.most, f.seen > 0
}
