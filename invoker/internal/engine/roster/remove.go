package roster

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// parallelRemovals is how many containers CleanUp removes at once. A daemon does not get
// faster with more.
const parallelRemovals = 8

// Remove ends and deletes a container in any state. A removal that fails is repeated in the
// background, and at once when a daemon that was away is back.
func (r *Roster) Remove(ctx context.Context, id container.ID) error {
	r.Forget(id)
	err := r.options.Remove(ctx, string(id))
	if err != nil {
		r.Sweep(string(id))
	}
	return err
}

// CleanUp removes every container whose name starts with prefix, in whatever state it is.
// It goes on past failures and returns all of them.
func (r *Roster) CleanUp(ctx context.Context, prefix string) error {
	found, err := r.Leftovers(ctx, prefix)
	if err != nil {
		return err
	}
	errs := make([]error, len(found))
	var group errgroup.Group
	group.SetLimit(parallelRemovals)
	for i, l := range found {
		group.Go(func() error {
			errs[i] = r.Remove(ctx, l.ID)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// Discard removes the container of a failed or abandoned create, by its id or name, while
// the caller goes on. No later create may have the same name.
func (r *Roster) Discard(idOrName string) {
	r.Forget(container.ID(idOrName))
	r.Spawn(func() {
		if err := r.options.Remove(r.base, idOrName); err != nil && r.base.Err() == nil {
			r.options.Log.Warn("remove container of a failed create, will try again", "container", idOrName, "error", err)
			r.Sweep(idOrName)
		}
	})
}

// Bounds of the pause between two tries to remove a container.
const (
	firstSweep = time.Second
	slowSweep  = time.Minute
)

// Sweep removes a container in the background. It tries until the removal succeeds: also a
// daemon that answers may refuse a removal for a while, because a mount is still busy.
func (r *Roster) Sweep(idOrName string) {
	r.mu.Lock()
	known := r.sweeping[idOrName]
	r.sweeping[idOrName] = true
	r.mu.Unlock()
	if !known {
		r.Spawn(func() { r.sweep(idOrName) })
	}
}

func (r *Roster) sweep(idOrName string) {
	for backoff := (retry.Backoff{Min: firstSweep, Max: slowSweep}); ; {
		r.mu.Lock()
		back := r.back
		r.mu.Unlock()
		select {
		case <-r.base.Done():
			return
		case <-back:
		case <-time.After(backoff.Next()):
		}
		if r.options.Remove(r.base, idOrName) == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.sweeping, idOrName)
			return
		}
	}
}

// wake starts the next try of each removal at once.
func (r *Roster) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.back)
	r.back = make(chan struct{})
}
