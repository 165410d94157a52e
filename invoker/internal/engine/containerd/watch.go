package containerd

import (
	"context"
	"errors"
	"time"

	events "github.com/containerd/containerd/api/events"
	coreevents "github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/typeurl/v2"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// greetingPause is the time between two greetings.
const greetingPause = 50 * time.Millisecond

// greeting is the topic of the event by which an engine finds out that it receives events.
const greeting = "/gpuwhisk/greeting"

// follow reads one event stream to its end.
func (e *Engine) follow(ctx context.Context, up func() error) error {
	ctx, cancel := context.WithCancel(e.in(ctx))
	defer cancel()
	messages, errs := e.api.Subscribe(ctx, `namespace==`+Namespace+`,topic~="^(/tasks/(exit|oom|delete)|/containers/delete|`+greeting+`)$"`)
	if err := e.greet(ctx, messages, errs); err != nil {
		return err
	}
	if err := up(); err != nil {
		return err
	}
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
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Answer)
	defer cancel()
	for again := time.NewTicker(greetingPause); ; {
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
		e.RecordOOM(container.ID(event.ContainerID))
	case *events.TaskExit:
		if event.ID == event.ContainerID { // not that of another process in it
			e.RecordEnd(container.ID(event.ContainerID))
		}
	case *events.TaskDelete:
		if event.ID == "" || event.ID == event.ContainerID {
			e.RecordEnd(container.ID(event.ContainerID))
		}
	case *events.ContainerDelete:
		e.RecordEnd(container.ID(event.ID))
	}
}
