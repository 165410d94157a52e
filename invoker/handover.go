package invoker

import (
	"context"
	"errors"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/sched"
	"golang.org/x/sync/errgroup"
)

// leave removes the containers at the end of the process. If a next process will adopt them,
// the idle ones stay. All workers have ended.
func (iv *Invoker) leave() error {
	if iv.ports.Daemon == nil || iv.ports.ContainerStates == nil || iv.ports.HandoverExpected == nil || !iv.ports.HandoverExpected() {
		iv.dispatch.deleteStateFiles()
		return iv.cleanUp("own")
	}
	kept := iv.dispatch.handOver()
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	left, err := iv.ports.Daemon.Leftovers(ctx, iv.settings.Prefix)
	if err != nil {
		return err
	}
	errs := make([]error, len(left))
	var group errgroup.Group
	group.SetLimit(parallelRemovals)
	for i, l := range left {
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

// handOver writes the state files of the idle containers and returns these containers.
func (d *dispatcher) handOver() map[container.ID]bool {
	kept := map[container.ID]bool{}
	keep := func(ctr *actionContainer) bool {
		if ctr == nil || !ctr.state.kept || ctr.life.Err() != nil {
			return false
		}
		d.stateFiles.setActivity(ctr, container.Idle)
		kept[ctr.handle.ID] = true
		return true
	}
	for _, slot := range d.pool.Adoptable() {
		keep(d.containers[slot])
	}
	d.handOverDevices(keep)
	for _, ctr := range d.all() {
		if !kept[ctr.handle.ID] {
			d.stateFiles.drop(ctr)
		}
	}
	return kept
}

func (d *dispatcher) deleteStateFiles() {
	for _, ctr := range d.all() {
		d.stateFiles.drop(ctr)
	}
}

// all lists every container.
func (d *dispatcher) all() []*actionContainer {
	var all []*actionContainer
	for _, ctr := range d.containers {
		all = append(all, ctr)
	}
	if d.gpus != nil {
		for _, ctr := range d.gpus.containers {
			all = append(all, ctr)
		}
	}
	return all
}

// prepareAdopted prepares the device memory of a container. It is a no-op for a container
// without a device.
func (d *dispatcher) prepareAdopted(ad *adopted) error {
	n := ad.state.GPU
	if n == nil {
		return nil
	}
	g := d.gpus
	if g == nil || g.adopter == nil || ad.leftover.Paused || ad.state.Activity != container.Idle {
		return errNoDevice
	}
	for _, device := range g.settings.Devices {
		if identity(device) != n.Device || device.Sharing == gpu.MPSShared { // MPS ends with its process
			continue
		}
		needs, err := d.mover.Prepare(ad.state.Name, device, g.settings.wishOf(ad.state))
		if err != nil {
			return err
		}
		ad.spec.GPU = &needs
		ad.device = device
		u := gpu.Usage{Allocated: ad.state.DeviceMemory.Allocated, Resident: ad.state.DeviceMemory.Resident, Context: ad.state.DeviceMemory.Context}
		if report, assumed := g.adopter.Assume(ad.state.Name, u); assumed {
			ad.assumed = &report
		}
		return nil
	}
	return errNoDevice
}

// wishOf returns the device request with which a container was created.
func (g GPUSettings) wishOf(state container.StateFile) container.DeviceRequest {
	return container.DeviceRequest{
		Shim: state.GPU.Shim, Limit: state.GPU.Limit, Host: int64(state.MemoryMB) << 20, Memory: state.GPU.Memory,
		Namespace: state.GPU.Namespace, NamespaceLimit: g.tenant(state.GPU.Namespace),
	}
}

// abandon undoes prepareAdopted.
func (d *dispatcher) abandon(ad adopted) {
	if ad.state.GPU != nil {
		d.mover.Forget(ad.state.Name)
	}
}

// adoptDevice reports a container to the GPU scheduler. It returns false if there is not
// enough host memory.
func (d *dispatcher) adoptDevice(now time.Duration, ad *adopted) bool {
	n := ad.state.GPU
	if !d.pool.Reserve(n.HostMB) {
		d.abandon(*ad)
		return false
	}
	d.next++
	ad.ctr.gpu = &deviceState{
		device: ad.device, wish: d.settings.GPU.wishOf(ad.state), specified: true, action: n.Action, fallback: n.Fallback, reserved: n.HostMB,
		flow: sched.FlowID{Namespace: n.Namespace, Function: n.Function}, key: ad.key, revision: n.Revision,
	}
	d.gpus.adopted[d.next] = ad
	d.gpus.take(now, scheduler.Event{
		Kind: scheduler.Adopted, Invocation: d.next, Device: ad.device.Index, Idle: max(time.Since(ad.state.Since), 0),
		Function: &scheduler.Function{
			Flow: ad.ctr.gpu.flow, Key: ad.key, HostMB: n.HostMB, Memory: n.Memory, NoShim: n.Unseen,
			Width: max(ad.state.Concurrency, 1), Weight: n.Weight,
		},
	})
	return true
}

// finishAdoption lets the GPU scheduler take over the adopted containers, and removes the
// files of all others.
func (d *dispatcher) finishAdoption(now time.Duration) {
	g := d.gpus
	if g == nil {
		return
	}
	g.decide(now)
	for _, ad := range g.adopted {
		if ad.assumed != nil {
			g.memoryReported(now, *ad.assumed)
		}
	}
	clear(g.adopted)
	if g.adopter == nil {
		return
	}
	if err := g.adopter.Sweep(); err != nil {
		d.log.Warn("remove the files of earlier GPU containers", "error", err)
	}
}

// handOverDevices calls keep for the idle containers, and closes the connections to those that
// keep accepts.
func (d *dispatcher) handOverDevices(keep func(*actionContainer) bool) {
	g := d.gpus
	if g == nil || g.adopter == nil {
		return
	}
	for _, s := range g.core.Containers() {
		ctr := g.containers[s.ID]
		if s.Runs > 0 || s.Leaving || ctr.gpu.device.Sharing == gpu.MPSShared {
			continue
		}
		if keep(ctr) {
			g.adopter.Release(ctr.name)
		}
	}
}
