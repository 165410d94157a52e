package invoker

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// leave removes the containers at the end, but for those that rest if a process
// is to follow that takes them over. Nobody works any more.
func (iv *Invoker) leave() error {
	keeper, keeps := iv.ports.Engine.(Keeper)
	if !keeps || iv.ports.Notes == nil || iv.ports.Successor == nil || !iv.ports.Successor() {
		iv.dispatch.dropNotes()
		return iv.cleanUp("own")
	}
	kept := iv.dispatch.bequeath()
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	lefts, err := keeper.Left(ctx, iv.settings.Prefix)
	if err != nil {
		return err
	}
	errs := make([]error, len(lefts))
	var group errgroup.Group
	group.SetLimit(parallelRemovals)
	for i, l := range lefts {
		if !kept[l.ID] {
			group.Go(func() error {
				errs[i] = iv.ports.Engine.Remove(ctx, l.ID)
				return nil
			})
		}
	}
	_ = group.Wait()
	if len(kept) > 0 {
		iv.log.Info("warm containers are left to the next process with this id",
			"containers", len(kept), "instead", "if none is to come, remove them by: gpuwhisk clean, or whisk.gpu.handover=false before the stop")
	}
	return errors.Join(errs...)
}

// bequeath notes what every container that rests holds, and gives those.
func (d *dispatcher) bequeath() map[container.ID]bool {
	kept := map[container.ID]bool{}
	keep := func(b *box) bool {
		if b == nil || !b.tab.kept || b.life.Err() != nil {
			return false
		}
		d.tabs.mark(b, container.Resting)
		kept[b.handle.ID] = true
		return true
	}
	for _, slot := range d.pool.Resting() {
		keep(d.boxes[slot])
	}
	d.bequeathDevices(keep)
	for _, b := range d.all() {
		if !kept[b.handle.ID] {
			d.tabs.drop(b)
		}
	}
	return kept
}

func (d *dispatcher) dropNotes() {
	for _, b := range d.all() {
		d.tabs.drop(b)
	}
}

// all lists every box.
func (d *dispatcher) all() []*box {
	var all []*box
	for _, b := range d.boxes {
		all = append(all, b)
	}
	if d.gpus != nil {
		for _, b := range d.gpus.boxes {
			all = append(all, b)
		}
	}
	return all
}
