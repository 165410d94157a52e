package roster

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
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
func (r *Roster) Watch(follow func(ctx context.Context, up func() error) error, lost func()) {
	backoff, away := retry.Backoff{Min: FirstRetry, Max: slowRetry}, false
	for r.base.Err() == nil {
		began := time.Now()
		err := follow(r.base, func() error {
			// The stream lacks the events from before its beginning.
			if err := r.reconcile(r.base); err != nil {
				return err
			}
			if away {
				r.options.Log.Info(r.options.Daemon + " is back")
			}
			away = false
			r.blind.Store(false)
			r.wake()
			return nil
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

// LookIfBlind reports the deaths that no event has reported. Launch calls it before it
// starts a container: the daemon may give the address of one that has ended to the new
// one, and an activation meant for the old one would run there.
func (r *Roster) LookIfBlind(ctx context.Context) error {
	if !r.Blind() {
		return nil
	}
	return r.reconcile(ctx)
}

// reconcile reports the deaths of the containers that ended unseen.
func (r *Roster) reconcile(ctx context.Context) error {
	// Before the list: containers that are created meanwhile are alive.
	before := r.handedOut()
	found, err := r.Leftovers(ctx, r.options.Prefix)
	if err != nil {
		return err
	}
	alive := map[container.ID]bool{}
	for _, l := range found {
		alive[l.ID] = l.Alive
	}
	for _, id := range before {
		if !alive[id] {
			r.RecordEnd(id)
		}
	}
	return nil
}

// handedOut lists the containers that the caller has.
func (r *Roster) handedOut() []container.ID {
	var ids []container.ID
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, k := range r.entriesByID {
		if k.handedOut {
			ids = append(ids, id)
		}
	}
	return ids
}
