package docker

import (
	"context"
	"errors"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// The pause before the event stream is asked for again grows from the first to
// the second. The first is short: a daemon that restarts is back soon, and
// until then no death is noticed.
const (
	firstRetry = 50 * time.Millisecond
	slowRetry  = 5 * time.Second
)

var errUnresponsive = errors.New("docker accepts the connection and does not answer")

// watch follows the daemon's events until the engine is closed.
func (e *Engine) watch() {
	backoff, away := retry.Backoff{Min: firstRetry, Max: slowRetry}, false
	for e.roster.Context().Err() == nil {
		began := time.Now()
		err := e.follow(func() {
			if away {
				e.log.Info("docker is back")
			}
			away = false
			e.blind.Store(false)
			e.roster.Wake()
		})
		if e.roster.Context().Err() != nil {
			return
		}
		// The next request is not to find a connection of a daemon that went.
		if err := e.api.Close(); err != nil { // those that idle
			e.log.Debug("close connections to docker", "error", err)
		}
		e.blind.Store(true)
		if !away {
			e.log.Warn("lost the event stream of docker", "error", err)
		}
		away = true
		if time.Since(began) > slowRetry { // else it may break off again as soon
			backoff.Reset()
		}
		backoff.Wait(e.roster.Context())
	}
}

// follow reads one event stream to its end. First it compares the containers
// with what is known: what happened before the stream began is not in it.
func (e *Engine) follow(up func()) error {
	ctx, cancel := context.WithCancel(e.roster.Context())
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
	for _, id := range before {
		if !running[id] {
			e.roster.RecordEnd(id)
		}
	}
	return nil
}
