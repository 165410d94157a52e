// Package outage is how everything here lives through what is away for a
// while: it waits, it asks again at growing distances, and it tells the log
// twice, when the outage begins and when it is over. It starts no goroutine.
package outage

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Wait sleeps unless ctx ends before. It tells whether the time has passed.
func Wait(ctx context.Context, d time.Duration) bool { return WaitFor(ctx.Done(), d) }

// WaitFor is Wait for an owner that ends by the closing of a channel.
func WaitFor(end <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-end:
		return false
	case <-t.C:
		return true
	}
}

// Pace is the distance between tries: the first pause is Min, each next one is
// twice as long up to Max. Half of a pause is chance, so that those who lost
// the same peer do not all come back at once.
type Pace struct {
	Min, Max time.Duration
	now      time.Duration
}

// Next is the pause before the next try.
func (p *Pace) Next() time.Duration {
	p.now = min(max(2*p.now, p.Min), p.Max)
	return p.now/2 + rand.N(p.now/2+1)
}

// Reset makes the next pause the first again.
func (p *Pace) Reset() { p.now = 0 }

// Bounds of the pause between tries of an Outage. The lower is what a broker's
// change of leader takes, the upper is how late one may notice that all is
// well again.
const (
	MinPause = 50 * time.Millisecond
	MaxPause = time.Second
)

// Outage tells the log that something is away, once, and that it is back,
// once, and paces the tries between. Its owner is one goroutine; Reason may be
// called from any.
type Outage struct {
	log  *slog.Logger
	what string

	bad  bool // of the owner: there is an outage
	pace Pace

	mu     sync.Mutex
	since  time.Time // zero: all is well
	reason string
}

// New is an outage of what, a noun such as "sending of pings", that has not
// happened yet.
func New(log *slog.Logger, what string) *Outage {
	return &Outage{log: log, what: what, pace: Pace{Min: MinPause, Max: MaxPause}}
}

// Failed notes a failure and waits before the next try. It returns false when
// ctx ended meanwhile.
func (o *Outage) Failed(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	o.Note(err)
	return Wait(ctx, o.pace.Next())
}

// Note tells the log of a failure without waiting.
func (o *Outage) Note(err error) {
	o.bad = true
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reason = err.Error()
	if o.since.IsZero() {
		o.since = time.Now()
		o.log.Warn(o.what+" interrupted, retrying", "error", err)
	}
}

// Over notes that it works.
func (o *Outage) Over() {
	if !o.bad {
		return
	}
	o.bad = false
	o.pace.Reset()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log.Info(o.what+" resumed", "after", time.Since(o.since).Round(time.Millisecond))
	o.since, o.reason = time.Time{}, ""
}

// Reason is the latest failure while there is an outage, else empty.
func (o *Outage) Reason() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reason
}

// Since is when the outage began, zero while there is none.
func (o *Outage) Since() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since
}
