package docker

import (
	"context"
	"errors"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

var errUnresponsive = errors.New("docker accepts the connection and does not answer")

// watch follows the daemon's events until the engine is closed.
func (e *Engine) watch() {
	e.Watch(e.follow, func() {
		// The next request must not find a connection of a daemon that went.
		if err := e.api.Close(); err != nil { // the idle connections
			e.log.Debug("close connections to docker", "error", err)
		}
	})
}

// follow reads one event stream to its end.
func (e *Engine) follow(ctx context.Context, up func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	filters := client.Filters{}.
		Add("type", string(events.ContainerEventType)).
		Add("event", string(events.ActionDie), string(events.ActionDestroy), string(events.ActionOOM))
	stream, err := e.listen(ctx, cancel, filters)
	if err != nil {
		return err
	}
	select {
	case err := <-stream.Err:
		return err
	default:
	}
	if err := up(); err != nil {
		return err
	}
	for {
		select {
		case event := <-stream.Messages:
			e.handle(event)
		case err := <-stream.Err:
			if err == nil {
				err = errors.New("event stream ended")
			}
			return err
		}
	}
}

// listen asks for the event stream. The stream has no end, but its beginning has a
// time limit: a daemon that hangs takes the connection and never answers.
func (e *Engine) listen(ctx context.Context, cancel context.CancelFunc, filters client.Filters) (client.EventsResult, error) {
	if limit := e.options.Timeouts.Answer; limit > 0 {
		late := time.AfterFunc(limit, cancel)
		defer late.Stop()
	}
	stream := e.api.Events(ctx, client.EventsListOptions{Filters: filters})
	if ctx.Err() != nil {
		return stream, errUnresponsive
	}
	return stream, nil
}

func (e *Engine) handle(event events.Message) {
	id := container.ID(event.Actor.ID)
	switch event.Action {
	case events.ActionOOM:
		e.RecordOOM(id)
	case events.ActionDie, events.ActionDestroy:
		e.RecordEnd(id)
	}
}
