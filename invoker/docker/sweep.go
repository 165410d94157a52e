package docker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

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
	pace := outage.Pace{Min: firstSweep, Max: slowSweep}
	var again <-chan time.Time
	for {
		switch left := len(s.list()); {
		case left == 0:
			pace.Reset()
			again = nil
		case again == nil:
			again = time.After(pace.Next())
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
