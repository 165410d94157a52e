package invoker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

const (
	// engineTimeout is how much longer than its own time limit an activation
	// waits for an engine that is away: about as long as its controller does.
	engineTimeout = time.Minute
	// Bounds of the pause between two trials of an engine that is away.
	firstTrial = 250 * time.Millisecond
	slowTrial  = 5 * time.Second
	// pingEvery is how often an engine is pinged, and pingTime how long it may take
	// to answer.
	pingEvery = 5 * time.Second
	pingTime  = 10 * time.Second
)

// textEngineAway answers an activation that waited for the engine in vain.
const textEngineAway = "The container engine of the invoker is away, and the activation waited for it for longer than its time limit."

// engineHealth tracks whether the container engine is reachable. While it is away, nothing is
// pulled, and activations that need a container wait. The engine is back when a container
// could be created. It is safe for concurrent use.
type engineHealth struct {
	engine Engine
	daemon Daemon // nil: the engine is always there
	log    *slog.Logger
	notify func(reason string) // of each change; "" is back

	mu    sync.Mutex
	away  string        // why it is away; empty: it is there
	back  chan struct{} // closed when it is there
	trial container.Spec
	tries int // trials so far: each has a name of its own
	since time.Time
	wake  chan struct{} // capacity 1: the engine was found away

	leftover container.ID // of a trial that is not removed yet; only watch uses it
}

func newEngineHealth(e Engine, d Daemon, log *slog.Logger, notify func(string)) *engineHealth {
	h := &engineHealth{engine: e, daemon: d, log: log, notify: notify, back: make(chan struct{}), wake: make(chan struct{}, 1)}
	close(h.back)
	if h.notify == nil {
		h.notify = func(string) {}
	}
	return h
}

// lost records that the engine did not answer. spec, if not nil, is the container that could
// not be created: a container like it is tried until one can be created. Images that still
// need a pull are not tried, because a pull takes as long as the registry needs.
func (h *engineHealth) lost(err error, spec *container.Spec) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if spec != nil && !spec.Pull {
		h.trial = *spec
		h.trial.GPU = nil
	}
	if h.away != "" {
		return
	}
	h.away, h.back, h.since = err.Error(), make(chan struct{}), time.Now()
	h.log.Error("container engine is away: nothing is pulled, activations wait", "error", err)
	h.notify(h.away)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *engineHealth) found() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log.Info("container engine is back", "after", time.Since(h.since).Round(time.Millisecond))
	h.away = ""
	close(h.back)
	h.notify("")
}

// Reason returns why the engine is away, "" if it is there.
func (h *engineHealth) Reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.away
}

// explains reports whether a container could not be created because the engine is
// away: the error is ErrAway, or the engine was away before.
func (h *engineHealth) explains(err error) bool {
	var failed *container.CreateError
	return errors.Is(err, container.ErrAway) ||
		errors.As(err, &failed) && failed.Blame == container.BlameWhisk && h.Reason() != ""
}

// await waits until the engine is there. It reports whether it is.
func (h *engineHealth) await(ctx context.Context) bool {
	h.mu.Lock()
	back := h.back
	h.mu.Unlock()
	select {
	case <-back:
		return true
	default:
	}
	select {
	case <-back:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch pings the engine if it can be pinged. While the engine is away, watch tries it until
// it is back.
func (h *engineHealth) watch(ctx context.Context) {
	for ctx.Err() == nil {
		var tick <-chan time.Time
		if h.daemon != nil {
			tick = time.After(pingEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
			h.retry(ctx)
		case <-tick:
			h.removeTrial(ctx)
			if err := h.ping(ctx); err != nil && ctx.Err() == nil {
				h.lost(err, nil)
			}
		}
	}
}

func (h *engineHealth) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	return h.daemon.Ping(ctx)
}

func (h *engineHealth) retry(ctx context.Context) {
	backoff := retry.Backoff{Min: firstTrial, Max: slowTrial}
	for backoff.Wait(ctx) {
		if err := h.try(ctx); err == nil {
			h.found()
			return
		}
	}
}

// try creates a container and removes it. The engine is there even if it refuses the
// container. Before the first container was needed, nothing is created, because it is not
// known which images exist.
func (h *engineHealth) try(ctx context.Context) error {
	if h.daemon != nil {
		if err := h.ping(ctx); err != nil {
			return err
		}
	}
	if !h.removeTrial(ctx) {
		return nil // another one would be left as well
	}
	h.mu.Lock()
	spec := h.trial
	h.tries++
	number := h.tries
	h.mu.Unlock()
	if spec.Name == "" {
		return nil
	}
	spec.Name = fmt.Sprintf("%s_trial%d", spec.Name, number)
	made, err := h.engine.Create(ctx, spec)
	switch {
	case errors.Is(err, container.ErrAway):
		return err
	case err != nil:
		return ctx.Err()
	}
	h.leftover = made.ID
	h.removeTrial(ctx)
	return nil
}

// removeTrial removes the container of the last trial, and reports whether it is gone.
func (h *engineHealth) removeTrial(ctx context.Context) bool {
	if h.leftover == "" {
		return true
	}
	if err := h.engine.Remove(ctx, h.leftover); err != nil {
		h.log.Warn("remove trial container, will try again", keyContainer, string(h.leftover), "error", err)
		return false
	}
	h.leftover = ""
	return true
}

// createWhenBack creates a run's container. While the engine is away it waits, for as long as
// the activation may. Then the activation goes to another container. An engine that went away
// may have created this container all the same, and removes it by its name when it is back.
func (w *worker) createWhenBack(ctx context.Context, r *run) error {
	err := w.open(ctx, r.ctr, r.concurrency)
	if !w.health.explains(err) || ctx.Err() != nil {
		return err
	}
	w.health.lost(err, &r.ctr.spec)
	waiting, cancel := context.WithTimeout(ctx, max(0, r.accepted+r.timeout+engineTimeout-w.clock()))
	defer cancel()
	if !w.health.await(waiting) {
		return &container.CreateError{Blame: container.BlameWhisk, Message: textEngineAway, Err: fmt.Errorf("waited in vain: %w", err)}
	}
	return fmt.Errorf("%w: the engine was away: %w", errAgain, err)
}
