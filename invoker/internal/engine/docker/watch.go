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
	e.roster.Watch(e.follow, func() {
		// The next request must not find a connection of a daemon that went.
		if err := e.api.Close(); err != nil { // the idle connections
			e.log.Debug("close connections to docker", "error", err)
		}
	})
}

// follow reads one event stream to its end. First it compares the containers with the
// roster: the stream lacks the events from before its beginning.
func (e *Engine) follow(ctx context.Context, up func()) error {
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
	if err := e.reconcile(ctx); err != nil {
		return err
	}
	up()
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
		e.roster.RecordOOM(id)
	case events.ActionDie, events.ActionDestroy:
		e.roster.RecordEnd(id)
	}
}

// reconcile reports the deaths of the containers that ended unseen.
func (e *Engine) reconcile(ctx context.Context) error {
	before := e.roster.HandedOut() // before the list: containers that are created meanwhile are alive
	found, err := e.search(ctx, e.options.Prefix)
	if err != nil {
		return err
	}
	running := map[container.ID]bool{}
	for _, c := range found {
		running[container.ID(c.ID)] = alive(c)
	}
	e.roster.RecordEndsExcept(before, func(id container.ID) bool { return running[id] })
	return nil
}
