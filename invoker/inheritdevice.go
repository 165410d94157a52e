package invoker

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Inheritor is a Mover whose containers may outlive the process.
type Inheritor interface {
	// Assume has a container that is prepared anew count as holding so much
	// until it says so itself. It gives what to take as said, if nothing was.
	Assume(name string, holds gpu.Usage) (gpu.Held, bool)
	// Release ends the talk with a container that lives on.
	Release(name string)
	// Sweep removes what belonged to containers that are not prepared.
	Sweep() error
}

// gpuHeir is what a container with a device needs to be taken over.
type gpuHeir struct {
	device  gpu.Device
	assumed *gpu.Held
	box     *box
}

// prepareHeir readies a container's device memory. Those without a device need
// nothing.
func (d *dispatcher) prepareHeir(h *heir) error {
	n := h.note.GPU
	if n == nil {
		return nil
	}
	l := d.gpus
	if l == nil || h.left.Paused || h.note.Rest != container.Resting {
		return errNoDevice
	}
	mover, ok := l.mover.(Inheritor)
	if !ok {
		return errNoDevice
	}
	for _, device := range l.settings.Devices {
		if identity(device) != n.Device || device.Sharing == gpu.MPSShared { // MPS ends with its process
			continue
		}
		needs, err := l.mover.Prepare(h.note.Name, device, l.settings.wishOf(h.note))
		if err != nil {
			return err
		}
		h.spec.GPU = &needs
		h.gpu = &gpuHeir{device: device}
		u := gpu.Usage{Allocated: h.note.Holds.Allocated, Resident: h.note.Holds.Resident, Context: h.note.Holds.Context}
		if held, assumed := mover.Assume(h.note.Name, u); assumed {
			h.gpu.assumed = &held
		}
		return nil
	}
	return errNoDevice
}

// wishOf is what a container was made with.
func (g GPUSettings) wishOf(n container.Note) container.GPUWish {
	return container.GPUWish{
		Shim: n.GPU.Shim, Limit: n.GPU.Limit, Host: int64(n.MemoryMB) << 20, Memory: n.GPU.Memory,
		Namespace: n.GPU.Namespace, NamespaceLimit: g.tenant(n.GPU.Namespace),
	}
}

// disown gives up what prepareHeir did.
func (d *dispatcher) disown(h heir) {
	if h.gpu != nil {
		d.gpus.mover.Forget(h.note.Name)
	}
}

// inheritDevice tells the lane of a container. False means that there is no host
// memory for it.
func (d *dispatcher) inheritDevice(now time.Duration, h heir, b *box) bool {
	n := h.note.GPU
	if !d.pool.Claim(n.HostMB) {
		d.disown(h)
		return false
	}
	d.next++
	h.gpu.box = b
	b.gpu = &gpuBox{
		device: h.gpu.device, wish: d.settings.GPU.wishOf(h.note), furnished: true, action: n.Action, fallback: n.Fallback, claimed: n.HostMB,
		flow: sched.FlowID{Namespace: n.Namespace, Function: n.Function},
	}
	d.gpus.heirs[d.next] = h.gpu
	d.gpus.take(now, lane.Event{
		Kind: lane.Adopted, Item: d.next, Device: h.gpu.device.Index, Idle: max(time.Since(h.note.Since), 0),
		Function: &lane.Function{
			Flow: b.gpu.flow, Key: h.key, HostMB: n.HostMB, Memory: n.Memory, Unseen: n.Unseen,
			Width: max(h.note.Concurrency, 1), Weight: n.Weight,
		},
	})
	return true
}

// settleHeirs gives the containers that were taken over their boxes, and lets go
// of what belonged to others.
func (d *dispatcher) settleHeirs(now time.Duration) {
	l := d.gpus
	if l == nil {
		return
	}
	heirs := l.heirs
	l.settle(now)
	for _, h := range heirs {
		if h.assumed != nil {
			l.heard(now, *h.assumed)
		}
	}
	l.heirs = map[uint64]*gpuHeir{}
	if mover, ok := l.mover.(Inheritor); ok {
		if err := mover.Sweep(); err != nil {
			d.log.Warn("remove what earlier GPU containers left", "error", err)
		}
	}
}

// bequeathDevices calls keep for the containers that rest, and ends the talk with all
// that it takes.
func (d *dispatcher) bequeathDevices(keep func(*box) bool) {
	l := d.gpus
	if l == nil {
		return
	}
	mover, ok := l.mover.(Inheritor)
	if !ok {
		return
	}
	for _, s := range l.lane.Boxes(nil) {
		b := l.boxes[s.Box]
		if s.Runs > 0 || s.Leaving || b.gpu.device.Sharing == gpu.MPSShared {
			continue
		}
		if keep(b) {
			mover.Release(b.name)
		}
	}
}
