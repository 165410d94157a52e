// Package retry repeats requests to peers that fail, with growing pauses. It logs two
// lines, one at the first failure and one when the peer works again. It starts no
// goroutines.
//
// Do repeats a call until it succeeds. Backoff has only the pauses. Condition is the
// state of one kind of request. Retrier is for a loop that reports its state while it
// retries. LogLimit limits the log lines about repeated faults
// of a peer, LimitRepeats those of a whole program.
package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Sleep waits for d. It returns false as soon as ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool { return SleepUnless(ctx.Done(), d) }

// SleepUnless is Sleep for an owner that ends when a channel is closed.
func SleepUnless(stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-stop:
		return false
	case <-t.C:
		return true
	}
}

// Backoff gives the pauses between tries: the first is Min, each next one is
// twice as long, up to Max. Half of a pause is random, so that clients of the
// same peer do not return at the same moment.
type Backoff struct {
	Min, Max time.Duration
	now      time.Duration
}

// Next returns the pause before the next try.
func (b *Backoff) Next() time.Duration {
	b.now = min(max(2*b.now, b.Min), b.Max)
	return b.now/2 + rand.N(b.now/2+1)
}

// Wait sleeps for the next pause. It returns false as soon as ctx ends.
func (b *Backoff) Wait(ctx context.Context) bool { return Sleep(ctx, b.Next()) }

// Reset makes the next pause the first again.
func (b *Backoff) Reset() { b.now = 0 }

// The default pauses. A broker's change of leader takes about the shorter one;
// the longer one bounds how late the end of an interruption is noticed.
const (
	MinPause = 50 * time.Millisecond
	MaxPause = time.Second
)

// Default returns a Backoff from MinPause to MaxPause.
func Default() Backoff { return Backoff{Min: MinPause, Max: MaxPause} }

// Do calls try until it returns nil or a Permanent error, or ctx ends. The
// error of an ended ctx wraps the last one of try.
func Do(ctx context.Context, b Backoff, try func() error) error {
	for {
		err := try()
		var p permanent
		switch {
		case err == nil:
			return nil
		case errors.As(err, &p):
			return p.error
		case !b.Wait(ctx):
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// Permanent makes Do return err at once.
func Permanent(err error) error { return permanent{err} }

type permanent struct{ error }

// Condition is the state of one kind of request. It logs each change of the state. The
// zero value means that requests succeed. It is not safe for concurrent use.
type Condition struct {
	LastError string    `json:"lastError,omitzero"` // empty while requests succeed
	Since     time.Time `json:"since,omitzero"`     // of the first failure in a row
}

// OK reports whether the last request succeeded.
func (c Condition) OK() bool { return c.LastError == "" }

// Failed records a failure. The first in a row is logged with text.
func (c *Condition) Failed(log *slog.Logger, text string, err error) {
	if c.OK() {
		c.Since = time.Now()
		log.Warn(text, "error", err)
	}
	c.LastError = err.Error()
}

// Succeeded records a success. The first after a failure is logged with text.
func (c *Condition) Succeeded(log *slog.Logger, text string) {
	if !c.OK() {
		log.Info(text, "after", time.Since(c.Since).Round(time.Millisecond))
	}
	*c = Condition{}
}

// Retrier repeats one kind of request and has its Condition. It is safe for
// use by many goroutines.
type Retrier struct {
	log  *slog.Logger
	task string

	mu        sync.Mutex
	backoff   Backoff
	condition Condition
}

// New returns a Retrier. what names the activity in the log, such as "sending of
// pings".
func New(log *slog.Logger, what string) *Retrier {
	return &Retrier{log: log, task: what, backoff: Default()}
}

// Wait records a failure and sleeps before the next try. It returns false as
// soon as ctx ends, and records nothing when it has ended before.
func (r *Retrier) Wait(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	r.Failed(err)
	r.mu.Lock()
	pause := r.backoff.Next()
	r.mu.Unlock()
	return Sleep(ctx, pause)
}

// Failed records a failure without waiting.
func (r *Retrier) Failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.condition.Failed(r.log, r.task+" interrupted, retrying", err)
}

// Succeeded records a success.
func (r *Retrier) Succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backoff.Reset()
	r.condition.Succeeded(r.log, r.task+" resumed")
}

// LastError is the latest failure, empty while requests succeed.
func (r *Retrier) LastError() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.condition.LastError
}

// Since is when requests began to fail, zero while they succeed.
func (r *Retrier) Since() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.condition.Since
}
