package docker

import (
	"context"
	"errors"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// The pause before the event stream is asked for again grows from the first to
// the second. The first is short: a daemon that restarts is back soon, and
// until then no death is noticed.
const (
	firstRetry = 50 * time.Millisecond
	slowRetry  = 5 * time.Second
)

// watch follows the daemon's events until the engine is closed.
func (e *Engine) watch() {
	pace, away := outage.Pace{Min: firstRetry, Max: slowRetry}, false
	for e.base.Err() == nil {
		err := e.follow(func() {
			if away {
				e.log.Info("docker is back")
			}
			pace.Reset()
			away = false
		})
		if e.base.Err() != nil {
			return
		}
		if !away {
			e.log.Warn("lost the event stream of docker", "err", err)
		}
		away = true
		outage.Wait(e.base, pace.Next())
	}
}

// follow reads one event stream to its end. First it compares the containers
// with what is known: what happened before the stream began is not in it.
func (e *Engine) follow(up func()) error {
	ctx, cancel := context.WithCancel(e.base)
	defer cancel()
	filters := client.Filters{}.
		Add("type", string(events.ContainerEventType)).
		Add("event", string(events.ActionDie), string(events.ActionDestroy), string(events.ActionOOM))
	stream := e.api.Events(ctx, client.EventsListOptions{Filters: filters})
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
			e.note(event)
		case err := <-stream.Err:
			if err == nil {
				err = errors.New("event stream ended")
			}
			return err
		}
	}
}

func (e *Engine) note(event events.Message) {
	id := container.ID(event.Actor.ID)
	switch event.Action {
	case events.ActionOOM:
		e.noteOOM(id)
	case events.ActionDie, events.ActionDestroy:
		e.bury(id)
	}
}

// reconcile buries the containers that ended unseen, and removes those whose
// removal failed.
func (e *Engine) reconcile(ctx context.Context) error {
	before := e.handedOut() // taken first: what is created meanwhile is alive
	running, err := e.summaries(ctx, e.options.Prefix)
	if err != nil {
		return err
	}
	for _, id := range before {
		if !running[id] {
			e.bury(id)
		}
	}
	for _, id := range e.takeDoomed() {
		if err := e.removeOnce(ctx, string(id)); err != nil {
			e.doom(id)
			return err
		}
	}
	return nil
}

func (e *Engine) handedOut() []container.ID {
	var ids []container.ID
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, k := range e.known {
		if k.handedOut {
			ids = append(ids, id)
		}
	}
	return ids
}
