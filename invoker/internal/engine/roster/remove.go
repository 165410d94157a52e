package roster

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// parallelRemovals is how many containers RemoveAll removes at once. A daemon does not get
// faster with more.
const parallelRemovals = 8

// Remove forgets and removes a container. A removal that fails is repeated in the
// background.
func (r *Roster) Remove(ctx context.Context, id container.ID) error {
	r.Forget(id)
	err := r.options.Remove(ctx, string(id))
	if err != nil {
		r.Sweep(string(id))
	}
	return err
}

// RemoveAll removes containers. It goes on past failures and returns all of them.
func (r *Roster) RemoveAll(ctx context.Context, ids []container.ID) error {
	errs := make([]error, len(ids))
	var group errgroup.Group
	group.SetLimit(parallelRemovals)
	for i, id := range ids {
		group.Go(func() error {
			errs[i] = r.Remove(ctx, id)
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

// Adopt adds the containers for which fit returns nil. Their deaths are reported and their
// output is read from now on, without the output of earlier activations.
func (r *Roster) Adopt(ctx context.Context, lefts []container.Leftover, fit func(i int) error) []error {
	errs := make([]error, len(lefts))
	for i, l := range lefts {
		if errs[i] = fit(i); errs[i] != nil {
			continue
		}
		r.Remember(l.ID)
		r.handOut(l.ID)
		if errs[i] = r.skipLog(ctx, l.ID); errs[i] != nil {
			r.Forget(l.ID)
		}
	}
	return errs
}

func (r *Roster) skipLog(ctx context.Context, id container.ID) error {
	_, tail := r.Tail(id)
	if tail == nil {
		return errClosed
	}
	if err := tail.Skip(ctx); err != nil {
		return fmt.Errorf("find the end of its log: %w", err)
	}
	return nil
}

// RecordEndsExcept reports the deaths of those of the containers that do not live. The
// caller gets the containers from HandedOut before it asks the daemon which live: a
// container that is created meanwhile is alive.
func (r *Roster) RecordEndsExcept(before []container.ID, lives func(id container.ID) bool) {
	for _, id := range before {
		if !lives(id) {
			r.RecordEnd(id)
		}
	}
}
