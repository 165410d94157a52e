package invoker

import (
	"context"
	"slices"
	"sync"
)

// hands are the goroutines that carry out what is decided. One that is done
// rests until the next work: a new one would begin with a small stack and grow
// it by copying, which is a thirtieth of what a run costs.
type hands struct {
	mu      sync.Mutex
	resting []chan func(context.Context) // he who rested least is the last
}

// mostResting bounds the hands that rest: as many as may be wanted again soon,
// at some KiB each.
const mostResting = 64

// do has f carried out. group counts a hand until it ends, which is with ctx at
// the latest, when it rests then.
func (h *hands) do(ctx context.Context, group *sync.WaitGroup, f func(context.Context)) {
	h.mu.Lock()
	if n := len(h.resting); n > 0 {
		one := h.resting[n-1]
		h.resting = h.resting[:n-1]
		h.mu.Unlock()
		one <- f
		return
	}
	h.mu.Unlock()
	group.Go(func() {
		next := make(chan func(context.Context), 1) // whoever has work does not wait
		for f := f; f != nil; f = h.rest(ctx, next) {
			f(ctx)
		}
	})
}

// rest waits for work; nil: there is none any more, or others enough rest.
func (h *hands) rest(ctx context.Context, next chan func(context.Context)) func(context.Context) {
	h.mu.Lock()
	if len(h.resting) >= mostResting || ctx.Err() != nil {
		h.mu.Unlock()
		return nil
	}
	h.resting = append(h.resting, next)
	h.mu.Unlock()
	select {
	case f := <-next:
		return f
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.resting, next)
	if i < 0 {
		return <-next // it was taken just now
	}
	h.resting = slices.Delete(h.resting, i, i+1)
	return nil
}
