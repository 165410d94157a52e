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

var errMute = errors.New("docker accepts the connection and does not say a word")

// watch follows the daemon's events until the engine is closed.
func (e *Engine) watch() {
	pace, away := outage.Pace{Min: firstRetry, Max: slowRetry}, false
	for e.base.Err() == nil {
		began := time.Now()
		err := e.follow(func() {
			if away {
				e.log.Info("docker is back")
			}
			away = false
			e.blind.Store(false)
			e.sweeper.wake()
		})
		if e.base.Err() != nil {
			return
		}
		// The next request is not to find a connection of a daemon that went.
		if err := e.api.Close(); err != nil { // those that idle
			e.log.Debug("close connections to docker", "err", err)
		}
		e.blind.Store(true)
		if !away {
			e.log.Warn("lost the event stream of docker", "err", err)
		}
		away = true
		if time.Since(began) > slowRetry { // else it may break off again as soon
			pace.Reset()
		}
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
			e.note(event)
		case err := <-stream.Err:
			if err == nil {
				err = errors.New("event stream ended")
			}
			return err
		}
	}
}

// listen asks for the event stream. It has no end, but its beginning must come: a
// daemon that hangs takes the connection and leaves it at that.
func (e *Engine) listen(ctx context.Context, cancel context.CancelFunc, filters client.Filters) (client.EventsResult, error) {
	if limit := e.options.Timeouts.Answer; limit > 0 {
		late := time.AfterFunc(limit, cancel)
		defer late.Stop()
	}
	stream := e.api.Events(ctx, client.EventsListOptions{Filters: filters})
	if ctx.Err() != nil {
		return stream, errMute
	}
	return stream, nil
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

// catchUp looks after the containers before another one starts while nobody hears
// of deaths. A daemon that was away may give the address of one that ended to the
// new one, and who still took the old one for alive would run its action there.
func (e *Engine) catchUp(ctx context.Context) error {
	if !e.blind.Load() {
		return nil
	}
	return e.reconcile(ctx)
}

// reconcile buries the containers that ended unseen.
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
