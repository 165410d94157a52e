package sim

import (
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
)

// obey does what the lane orders, as a server would.
func (e *engine) obey(o lane.Order) {
	switch o.Do {
	case lane.Make:
		e.boxes = append(e.boxes, container{fn: e.byFlow[o.Flow], dev: int32(o.Device)})
		e.devices[o.Device].live++
	case lane.Start:
		e.start(o)
	case lane.Move:
		e.move(o)
	case lane.Void:
		e.boxes[o.Box].moving = false
	case lane.Remove:
		e.boxes[o.Box].moving = false
		e.devices[o.Device].live--
		e.timers.push(timer{at: e.now, kind: removed, box: o.Box})
	case lane.Served:
		f := &e.fns[e.byFlow[o.Flow]]
		f.largest = max(f.largest, o.Service)
	case lane.Refuse:
		e.fail(fmt.Errorf("activation %d is refused: %s", o.Item-1, o.Reason))
	case lane.Mute:
		e.fail(fmt.Errorf("container %d counts as mute", o.Box))
	case lane.Bring, lane.Room, lane.Forget: // bodies and host memory are there
	}
}

// start begins an activation in its container: a new one is started and
// initialized first, one whose memory is still coming is waited for.
func (e *engine) start(o lane.Order) {
	j := int32(o.Item) - 1
	job, c := &e.jobs[j], &e.boxes[o.Box]
	f := &e.fns[job.fn]
	f.queued--
	e.cost.decisions++
	e.gaps.charged(job.fn, o.Charged)
	job.granted, job.dev = e.w.Arrivals[j].At+o.Waited, int32(o.Device)
	job.kind, job.box = o.Start, o.Box
	switch {
	case !job.kind.Warm():
		job.phase = starting
		e.timers.push(timer{at: e.now + e.p.ContainerStart, kind: containerStarted, job: j})
	case c.moving && c.arrives > e.now:
		job.phase = swappingIn
		e.timers.push(timer{at: e.now + e.p.Link.Exposed(c.arrives-e.now), kind: overlapped, job: j})
	default:
		e.run(j)
	}
}

// move occupies the link of a device in one direction for a transfer.
func (e *engine) move(o lane.Order) {
	c := &e.boxes[o.Box]
	d := e.devices[o.Device]
	way := &d.up
	if o.Move == gpu.Evict {
		way = &d.down
	}
	*way = max(*way, e.now) + e.p.Link.Transfer(o.Bytes)
	if o.Move == gpu.Prefetch {
		c.arrives = *way
	}
	c.moving, c.epoch = true, o.Epoch
	e.timers.push(timer{at: *way, kind: transferred, box: o.Box, epoch: o.Epoch, bytes: o.Bytes, evict: o.Move == gpu.Evict})
}

// fire handles one timer.
func (e *engine) fire(t timer) {
	switch t.kind {
	case containerStarted:
		e.initialize(t.job)
	case initialized:
		e.initialized(t.job)
	case overlapped:
		e.run(t.job)
	case transferred:
		e.moved(t)
	case removed:
		e.tell(lane.Event{Kind: lane.Gone, Box: t.box})
	case sampled:
		e.sample(t.dev)
	}
}

// moved reports a finished transfer, as the shim would. One whose order was
// replaced, or whose container is gone, is void.
func (e *engine) moved(t timer) {
	c := &e.boxes[t.box]
	if !c.moving || c.epoch != t.epoch {
		return
	}
	c.moving = false
	e.holds(t.box, !t.evict)
	e.tell(lane.Event{Kind: lane.Moved, Box: t.box, Epoch: t.epoch, Bytes: t.bytes, OK: true})
}

// holds says what a container holds, and where.
func (e *engine) holds(b lane.Box, resident bool) {
	bytes := e.fns[e.boxes[b].fn].spec.Memory
	u := gpu.Usage{Allocated: bytes, Context: e.p.Context}
	if resident {
		u.Resident = bytes
	}
	e.tell(lane.Event{Kind: lane.Held, Box: b, PID: 1, Usage: u})
}

func (e *engine) initialize(j int32) {
	job := &e.jobs[j]
	f := &e.fns[job.fn]
	e.tell(lane.Event{Kind: lane.Made, Box: job.box})
	e.holds(job.box, true) // its allocations appear while it initializes
	init := f.spec.Cold - f.spec.Warm
	switch {
	case init == 0:
		e.initialized(j)
	case e.p.InitInterferes:
		e.enter(j, initing, init)
	default:
		job.phase = initing
		e.timers.push(timer{at: e.now + init, kind: initialized, job: j})
	}
}

func (e *engine) initialized(j int32) {
	e.tell(lane.Event{Kind: lane.Warmed, Box: e.jobs[j].box})
	e.run(j)
}

func (e *engine) run(j int32) {
	e.jobs[j].ran = e.now
	e.enter(j, running, e.w.Work(e.w.Arrivals[j]))
}

// enter puts a job among those that use the device.
func (e *engine) enter(j int32, p phase, work time.Duration) {
	job := &e.jobs[j]
	d := e.devices[job.dev]
	e.advance(d)
	job.phase, job.remaining = p, int64(work)
	d.running = append(d.running, j)
}

// completions ends the phases of a device's runs whose work is done.
func (e *engine) completions(d *device) {
	for i := 0; i < len(d.running); {
		j := d.running[i]
		job := &e.jobs[j]
		if job.remaining > 1 {
			i++
			continue
		}
		d.running = append(d.running[:i], d.running[i+1:]...)
		if job.phase == initing {
			e.initialized(j)
		} else {
			e.complete(j)
		}
	}
}

// complete ends an activation.
func (e *engine) complete(j int32) {
	job := &e.jobs[j]
	job.phase, job.ended = finished, e.now
	e.done++
	v := lane.Event{Item: uint64(j) + 1, Keep: true, Ran: e.now - job.ran}
	if !job.kind.Warm() {
		v.Setup = job.ran - job.granted
	}
	for _, v.Kind = range []lane.EventKind{lane.Answered, lane.Over, lane.Left} {
		e.tell(v)
	}
}

// sample reads a device's utilization as NVML would.
func (e *engine) sample(dev int32) {
	d := e.devices[dev]
	e.advance(d)
	if span := (e.now - d.sampledAt).Seconds(); span > 0 {
		e.tell(lane.Event{Kind: lane.Observed, Device: int(dev), Utilization: min(1, d.kernel/span), Used: -1})
		d.kernel, d.sampledAt = 0, e.now
	}
	e.timers.push(timer{at: e.now + sampleEvery, kind: sampled, dev: dev})
}
