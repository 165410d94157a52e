package records

import "time"

// arrivalRate estimates how fast documents arrive and from that how long a batch
// should wait to fill.
type arrivalRate struct {
	max      time.Duration // longest linger
	last     time.Time     // of the last arrival
	interval time.Duration // smoothed time between arrivals
}

const (
	// idleGap caps a gap: a longer one changes the estimate no more.
	idleGap = time.Second
	// wantDocs is a batch that is cheap enough: beyond it CouchDB's cost of a
	// document falls slowly.
	wantDocs = 64
	// worthDocs is what a linger must be expected to gather to be worth it.
	worthDocs = 2
)

// arrive records an arrival. The weight of the newest gap, 3/10, lets about ten
// documents settle the estimate.
func (p *arrivalRate) arrive(now time.Time) {
	gap := idleGap
	if !p.last.IsZero() {
		gap = min(now.Sub(p.last), idleGap)
	}
	if p.interval == 0 {
		p.interval = idleGap
	}
	p.last = now
	p.interval = max((7*p.interval+3*gap)/10, 1)
}

// linger is how long the oldest document of a batch may wait for company:
// nothing when arrivals are rare, else until the batch is worth sending.
func (p *arrivalRate) linger() time.Duration {
	if p.interval == 0 || p.interval*worthDocs > p.max {
		return 0
	}
	return min(p.interval*wantDocs, p.max)
}
