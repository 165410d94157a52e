package invoker

import (
	"cmp"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// arrived is a routed activation that must run. It runs for the first time, or again because
// its container was lost before the run began.
type arrived struct{ p *pending }

func (e arrived) apply(d *dispatcher, now time.Duration) {
	p := e.p
	if d.returns(p) {
		d.handBack(p)
		return
	}
	d.next++
	p.invocation, p.queued = d.next, now
	d.observe.queued(p, now)
	if p.gpu != nil {
		d.gpus.submit(now, p)
		return
	}
	d.queued[p.invocation] = p
	d.pool.Enqueue(now, d.pins.demand(p))
}

// opened reports that a container exists. From here on the dispatcher notices its death.
type opened struct{ ctr *actionContainer }

func (e opened) apply(d *dispatcher, now time.Duration) {
	if e.ctr.gpu != nil {
		d.gpus.take(now, scheduler.Event{Kind: scheduler.Created, Container: e.ctr.gpu.id})
	} else {
		d.pool.Started(now, e.ctr.slot) // a prewarmed container; a run reports its own container
	}
	d.watch(now, e.ctr)
}

// watch makes the dispatcher notice the death of a new container. The death may have been
// reported before the creation.
func (d *dispatcher) watch(now time.Duration, ctr *actionContainer) {
	d.alive[ctr.handle.ID] = ctr
	if d.early[ctr.handle.ID] {
		delete(d.early, ctr.handle.ID)
		died{ctr.handle.ID}.apply(d, now)
	}
}

// warmed reports that a container is initialised and may take more runs of the
// same action.
type warmed struct{ ctr *actionContainer }

func (e warmed) apply(d *dispatcher, now time.Duration) {
	if e.ctr.gpu != nil {
		d.gpus.take(now, scheduler.Event{Kind: scheduler.Initialized, Container: e.ctr.gpu.id})
		return
	}
	if e.ctr.pin != nil {
		e.ctr.pin.warm = true
	}
	d.pool.Warmed(now, e.ctr.slot)
}

// left reports that an activation has left its container. unused means that the run did not
// begin there; the activation will run elsewhere.
type left struct {
	run    *run
	keep   bool
	unused bool
}

func (e left) apply(d *dispatcher, now time.Duration) {
	if e.run.lease != nil {
		d.gpus.left(now, e)
		if d.draining && !e.keep {
			d.leavePaused(now)
		}
		return
	}
	d.pool.Done(now, e.run.ctr.slot, e.keep)
	if !e.keep {
		d.pins.lose(now, e.run.ctr)
	}
}

type pausedEvent struct {
	slot container.SlotID
	ok   bool
}

func (e pausedEvent) apply(d *dispatcher, now time.Duration) {
	d.pool.Paused(now, e.slot, e.ok)
	d.pins.paused(now, d.containers[e.slot], e.ok)
}

// gone reports that a container is removed and its memory is free. ctr is nil if the container
// was never used.
type gone struct {
	slot container.SlotID
	ctr  *actionContainer
}

func (e gone) apply(d *dispatcher, now time.Duration) {
	if e.ctr != nil && e.ctr.gpu != nil {
		d.gpus.gone(now, e.ctr)
		return
	}
	delete(d.containers, e.slot)
	d.pool.Gone(now, e.slot)
}

// died reports that a container ended or vanished by itself. No further activation is sent
// there. A run in the container ends with its connection, or soon after (exchange).
type died struct{ id container.ID }

// earlyDeaths bounds how many deaths of unknown containers are remembered:
// most belong to containers that were being removed.
const earlyDeaths = 1000

func (e died) apply(d *dispatcher, now time.Duration) {
	ctr, ok := d.alive[e.id]
	if !ok {
		if len(d.early) >= earlyDeaths {
			clear(d.early)
		}
		d.early[e.id] = true
		return
	}
	delete(d.alive, e.id)
	ctr.die(nil)
	if ctr.gpu != nil {
		d.gpus.take(now, scheduler.Event{Kind: scheduler.Died, Container: ctr.gpu.id})
		return
	}
	d.pool.Failed(ctr.slot)
	d.pins.lose(now, ctr)
}

// observed has readings of devices.
type observed struct{ readings []gpu.Reading }

func (e observed) apply(d *dispatcher, now time.Duration) { d.gpus.observe(now, e.readings) }

// deviceChanged reports the loss or the return of a device.
type deviceChanged scheduler.Event

func (e deviceChanged) apply(d *dispatcher, now time.Duration) {
	d.gpus.deviceChanged(now, scheduler.Event(e))
}

// answered reports that a run has its response and its container stays.
type answered struct{ run *run }

func (e answered) apply(d *dispatcher, now time.Duration) {
	d.gpus.take(now, scheduler.Event{Kind: scheduler.Answered, Invocation: e.run.invocation})
}

// over reports that a run has left the GPU and that the container's memory is known. The
// container is still busy with the run until the run has left the container. seen is closed
// after the dispatcher has applied this event and all earlier ones.
type over struct {
	run     *run
	keep    bool
	applied chan struct{}
}

func (e over) apply(d *dispatcher, now time.Duration) {
	if e.keep {
		d.passed(e.run)
	}
	d.gpus.over(now, left{run: e.run, keep: e.keep})
	close(e.applied)
}

// memoryReport reports the memory of a process in a GPU container.
type memoryReport struct{ gpu.MemoryReport }

func (e memoryReport) apply(d *dispatcher, now time.Duration) {
	d.gpus.memoryReported(now, e.MemoryReport)
}

// moved reports that the mover's work on an order has ended.
type moved struct {
	ctr   *actionContainer
	order gpu.Order
	bytes int64
	err   error // the order is not carried out, or its outcome is unknown
}

func (e moved) apply(d *dispatcher, now time.Duration) { d.gpus.moved(now, e) }

// Reports about devices from other packages.

// Observe takes readings of devices. It does not block and is safe for concurrent use.
// Readings are dropped while the dispatcher has too much to do, because newer readings follow.
func (iv *Invoker) Observe(readings []gpu.Reading) {
	if !iv.dispatch.crowded() {
		iv.dispatch.post(observed{readings})
	}
}

// DeviceLost reports that a device is unusable, and why. Its runs are ended. Queued
// activations go to other devices or wait.
func (iv *Invoker) DeviceLost(index int, why string) { iv.lost(index, scheduler.OfDevice, why) }

// DeviceBack reports that a lost device can be used again.
func (iv *Invoker) DeviceBack(index int) { iv.back(index, scheduler.OfDevice) }

// DaemonLost reports that the daemon by which containers share a device is away. A device is
// used only while both the device and its daemon work.
func (iv *Invoker) DaemonLost(index int, why string) { iv.lost(index, scheduler.OfDaemon, why) }

// DaemonBack reports that the daemon of a device works again.
func (iv *Invoker) DaemonBack(index int) { iv.back(index, scheduler.OfDaemon) }

func (iv *Invoker) lost(index int, of scheduler.Loss, why string) {
	iv.dispatch.post(deviceChanged{Kind: scheduler.DeviceLost, Device: index, Of: of, Why: cmp.Or(why, "no reason given")})
}

func (iv *Invoker) back(index int, of scheduler.Loss) {
	iv.dispatch.post(deviceChanged{Kind: scheduler.DeviceBack, Device: index, Of: of})
}
