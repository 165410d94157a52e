package roster

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Bounds of the pause before the event stream is asked for again. The first is short: a
// daemon that restarts is back soon, and no death is noticed before.
const (
	FirstRetry = 50 * time.Millisecond
	slowRetry  = 5 * time.Second
)

// Watch calls follow, which reads one event stream of the daemon to its end and calls up
// when it receives events, again and again until the roster is closed. lost is called after
// each end.
func (r *Roster) Watch(follow func(ctx context.Context, up func()) error, lost func()) {
	backoff, away := retry.Backoff{Min: FirstRetry, Max: slowRetry}, false
	for r.base.Err() == nil {
		began := time.Now()
		err := follow(r.base, func() {
			if away {
				r.options.Log.Info(r.options.Daemon + " is back")
			}
			away = false
			r.blind.Store(false)
			r.wake()
		})
		if r.base.Err() != nil {
			return
		}
		lost()
		r.blind.Store(true)
		if !away {
			r.options.Log.Warn("lost the event stream of "+r.options.Daemon, "error", err)
		}
		away = true
		if time.Since(began) > slowRetry { // otherwise it may break off again as soon
			backoff.Reset()
		}
		backoff.Wait(r.base)
	}
}

// Blind reports whether deaths are not noticed, because the daemon sends no events.
func (r *Roster) Blind() bool { return r.blind.Load() }
