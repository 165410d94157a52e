package roster

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Bounds of the pause between two tries to remove a container.
const (
	firstSweep = time.Second
	slowSweep  = time.Minute
)

// Sweep removes a container in the background. It tries until the removal succeeds.
func (r *Roster) Sweep(idOrName string) { r.sweeper.add(r.base, idOrName) }

// wake starts the next try of each Sweep at once. The engine calls it when the daemon is
// back.
func (r *Roster) wake() { r.sweeper.wake() }

// sweeper repeats failed removals, each in a goroutine of its own. Also a daemon that
// answers may refuse a removal for a while, because a mount is still busy.
type sweeper struct {
	remove func(ctx context.Context, idOrName string) error
	spawn  func(f func()) bool

	mu        sync.Mutex
	remaining map[string]bool
	back      chan struct{} // closed when the daemon is back, and replaced
}

func newSweeper(remove func(context.Context, string) error, spawn func(func()) bool) *sweeper {
	return &sweeper{remove: remove, spawn: spawn, remaining: map[string]bool{}, back: make(chan struct{})}
}

// add removes a container in the background until the removal succeeds or ctx ends.
func (s *sweeper) add(ctx context.Context, idOrName string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.remaining[idOrName] {
		s.remaining[idOrName] = s.spawn(func() { s.sweep(ctx, idOrName) })
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
			delete(s.remaining, idOrName)
			return
		}
	}
}

// wake starts the next try of each removal at once.
func (s *sweeper) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.back)
	s.back = make(chan struct{})
}
