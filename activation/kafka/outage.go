package kafka

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Bounds of the pause between tries. The lower is what a leader's move takes,
// the upper is how late one may notice that the broker is back.
const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// outage tells the log that something is away, once, and that it is back,
// once, and paces the tries between. Its owner is one goroutine; Reason may be
// called from any.
type outage struct {
	log  *slog.Logger
	what string

	bad   bool // of the owner: there is an outage
	pause time.Duration

	mu     sync.Mutex
	since  time.Time // zero: all is well
	reason string
}

func newOutage(log *slog.Logger, what string) *outage {
	return &outage{log: log, what: what}
}

// failed notes a failure and waits before the next try. It returns false when
// ctx ended meanwhile.
func (o *outage) failed(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	o.note(err)
	o.pause = min(max(2*o.pause, minPause), maxPause)
	// Invokers that lost the same broker should not all return at once.
	return wait(ctx, o.pause/2+rand.N(o.pause/2))
}

// note tells the log of a failure without waiting.
func (o *outage) note(err error) {
	o.bad = true
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reason = err.Error()
	if o.since.IsZero() {
		o.since = time.Now()
		o.log.Warn(o.what+" interrupted, retrying", "error", err)
	}
}

// over notes that it works.
func (o *outage) over() {
	if !o.bad {
		return
	}
	o.bad, o.pause = false, 0
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log.Info(o.what+" resumed", "after", time.Since(o.since).Round(time.Millisecond))
	o.since, o.reason = time.Time{}, ""
}

// Reason is the latest failure while there is an outage, else empty.
func (o *outage) Reason() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reason
}

// wait sleeps unless ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
