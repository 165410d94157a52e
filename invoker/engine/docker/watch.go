package docker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
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
		backoff.Wait(e.base)
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
		e.setOOM(id)
	case events.ActionDie, events.ActionDestroy:
		e.recordEnd(id)
	}
}

// reconcile reports the deaths of the containers that ended unseen.
func (e *Engine) reconcile(ctx context.Context) error {
	before := e.handedOut() // before the list: containers that are created meanwhile are alive
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
			e.recordEnd(id)
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

// Bounds of the pause between two tries to remove what could not be removed.
const (
	firstSweep = time.Second
	slowSweep  = time.Minute
)

// sweeper removes the containers whose removal failed, each in a goroutine of its
// own that tries until it is gone. A daemon that is there may refuse one for a
// while, for a mount that is still busy.
type sweeper struct {
	remove func(ctx context.Context, idOrName string) error
	spawn  func(f func()) bool

	mu   sync.Mutex
	left map[string]bool
	back chan struct{} // closed when the daemon is back, and replaced
}

func newSweeper(remove func(context.Context, string) error, spawn func(func()) bool) *sweeper {
	return &sweeper{remove: remove, spawn: spawn, left: map[string]bool{}, back: make(chan struct{})}
}

// add has a container removed as soon as that can be, until ctx ends.
func (s *sweeper) add(ctx context.Context, idOrName string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left[idOrName] {
		s.left[idOrName] = s.spawn(func() { s.sweep(ctx, idOrName) })
	}
}

func (s *sweeper) sweep(ctx context.Context, idOrName string) {
	for backoff := (retry.Backoff{Min: firstSweep, Max: slowSweep}); ; {
		s.mu.Lock()
		back := s.back
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-back:
		case <-time.After(backoff.Next()):
		}
		if s.remove(ctx, idOrName) == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.left, idOrName)
			return
		}
	}
}

// wake has the next tries come at once.
func (s *sweeper) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.back)
	s.back = make(chan struct{})
}
