package containerd

import (
	"context"
	"errors"
	"time"

	events "github.com/containerd/containerd/api/events"
	coreevents "github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/typeurl/v2"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Bounds of the pause before the event stream is asked for again.
const (
	firstRetry = 50 * time.Millisecond
	slowRetry  = 5 * time.Second
)

// greeting is the topic of the event by which an engine finds out that it receives events.
const greeting = "/gpuwhisk/greeting"

// watch follows the daemon's events until the engine is closed.
func (e *Engine) watch() {
	base := e.in(e.roster.Context())
	backoff, away := retry.Backoff{Min: firstRetry, Max: slowRetry}, false
	for base.Err() == nil {
		began := time.Now()
		err := e.follow(base, func() {
			if away {
				e.log.Info("containerd is back")
			}
			away = false
			e.blind.Store(false)
			e.roster.Wake()
		})
		if base.Err() != nil {
			return
		}
		e.blind.Store(true)
		if !away {
			e.log.Warn("lost the event stream of containerd", "error", err)
		}
		away = true
		if time.Since(began) > slowRetry { // else it may break off again as soon
			backoff.Reset()
		}
		backoff.Wait(base)
	}
}

// follow reads one event stream to its end. When the stream has begun, it compares the
// containers with the roster: the stream lacks the events from before its beginning.
func (e *Engine) follow(ctx context.Context, up func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, errs := e.api.Subscribe(ctx, `namespace==`+Namespace+`,topic~="^(/tasks/(exit|oom|delete)|/containers/delete|`+greeting+`)$"`)
	if err := e.greet(ctx, messages, errs); err != nil {
		return err
	}
	if err := e.reconcile(ctx); err != nil {
		return err
	}
	up()
	for {
		select {
		case message := <-messages:
			e.handle(message)
		case err := <-errs:
			if err == nil {
				err = errors.New("event stream ended")
			}
			return err
		}
	}
}

// greet sends events until an event comes back: the daemon does not tell when a stream
// has begun.
func (e *Engine) greet(ctx context.Context, messages <-chan *coreevents.Envelope, errs <-chan error) error {
	ctx, cancel := limited(ctx, e.options.Timeouts.Answer)
	defer cancel()
	for again := time.NewTicker(firstRetry); ; {
		if err := e.api.EventService().Publish(ctx, greeting, &events.NamespaceUpdate{Name: Namespace}); err != nil {
			return err
		}
		select {
		case message := <-messages:
			if message.Topic == greeting {
				return nil
			}
			e.handle(message)
		case err := <-errs:
			if err == nil {
				err = errors.New("event stream ended")
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

func (e *Engine) handle(message *coreevents.Envelope) {
	if message == nil || message.Event == nil {
		return
	}
	event, err := typeurl.UnmarshalAny(message.Event)
	if err != nil {
		return // of a kind that is not ours
	}
	switch event := event.(type) {
	case *events.TaskOOM:
		e.roster.RecordOOM(container.ID(event.ContainerID))
	case *events.TaskExit:
		if event.ID == event.ContainerID { // not that of another process in it
			e.roster.RecordEnd(container.ID(event.ContainerID))
		}
	case *events.TaskDelete:
		if event.ID == "" || event.ID == event.ContainerID {
			e.roster.RecordEnd(container.ID(event.ContainerID))
		}
	case *events.ContainerDelete:
		e.roster.RecordEnd(container.ID(event.ID))
	}
}

// reconcile reports the deaths of the containers that ended unseen.
func (e *Engine) reconcile(ctx context.Context) error {
	before := e.roster.HandedOut() // before the list: containers that are created meanwhile are alive
	states, err := e.states(ctx)
	if err != nil {
		return err
	}
	for _, id := range before {
		if !alive(states[string(id)]) {
			e.roster.RecordEnd(id)
		}
	}
	return nil
}
