package docker

import (
	"context"
	"errors"
	"maps"
	"slices"
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

var errUnresponsive = errors.New("docker accepts the connection and does not say a word")

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

// listen asks for the event stream. It has no end, but its beginning must come: a
// daemon that hangs takes the connection and leaves it at that.
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
		e.bury(id)
	}
}

// catchUp checks the containers before another one starts while no deaths are
// reported. A daemon that was away may give the address of one that ended to the
// new one, and an activation meant for the old one would run there.
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

// Bounds of the pause between two tries to remove what could not be removed.
const (
	firstSweep = time.Second
	slowSweep  = time.Minute
)

// sweeper remembers the containers whose removal failed, until they are gone. A
// daemon that is there may refuse one for a while, for a mount that is still busy.
type sweeper struct {
	more chan struct{} // capacity 1: there is one more
	back chan struct{} // capacity 1: the daemon is

	mu     sync.Mutex
	doomed map[container.ID]bool
}

func newSweeper() *sweeper {
	return &sweeper{more: make(chan struct{}, 1), back: make(chan struct{}, 1), doomed: map[container.ID]bool{}}
}

// doom has a container removed as soon as that can be.
func (s *sweeper) doom(id container.ID) {
	s.mu.Lock()
	s.doomed[id] = true
	s.mu.Unlock()
	signal(s.more)
}

// wake has the next try come at once.
func (s *sweeper) wake() { signal(s.back) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *sweeper) list() []container.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.doomed))
}

func (s *sweeper) gone(id container.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.doomed, id)
}

// run tries until the context ends. What is refused does not hold up the others.
func (s *sweeper) run(ctx context.Context, remove func(ctx context.Context, id string) error) {
	backoff := retry.Backoff{Min: firstSweep, Max: slowSweep}
	var again <-chan time.Time
	for {
		switch left := len(s.list()); {
		case left == 0:
			backoff.Reset()
			again = nil
		case again == nil:
			again = time.After(backoff.Next())
		}
		select {
		case <-ctx.Done():
			return
		case <-s.more:
			continue
		case <-s.back:
		case <-again:
		}
		again = nil
		for _, id := range s.list() {
			if remove(ctx, string(id)) == nil {
				s.gone(id)
			}
		}
	}
}
