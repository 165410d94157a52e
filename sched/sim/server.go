package sim

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
)

// sampleEvery is the paper's interval of utilization readings (section 4.1).
const sampleEvery = 200 * time.Millisecond

// fixed is the scale of slowdowns: progress is computed in integers, so that a
// run gives the same numbers on every machine.
const fixed = 10_000

// container is one container of the simulated server.
type container struct {
	fn      int32
	moving  bool          // the scheduler awaits the end of its newest transfer
	epoch   uint64        // epoch of the move
	arrives time.Duration // when the newest transfer to the device ends
}

// device is one simulated GPU.
type device struct {
	live    int     // containers
	running []int32 // executions that use the device's cores, in order of start
	last    time.Duration
	up      time.Duration // when the link to the device is free
	down    time.Duration // when the link from the device is free

	active    time.Duration // time with at least one run, in all
	sampledAt time.Duration // last utilization sample
	kernel    float64       // seconds with a kernel running since then
}

// execute carries out an order of the scheduler.
func (e *engine) execute(o scheduler.Order) {
	switch o.Do {
	case scheduler.Create:
		e.containers = append(e.containers, container{fn: e.byFlow[o.Flow]})
		e.devices[o.Device].live++
	case scheduler.Start:
		e.start(o)
	case scheduler.Move:
		e.move(o)
	case scheduler.CancelMove:
		e.containers[o.Container].moving = false
	case scheduler.Remove:
		e.touch(e.containers[o.Container].fn)
		e.containers[o.Container].moving = false
		e.devices[o.Device].live--
		e.after(0, func() { e.notify(scheduler.Event{Kind: scheduler.Removed, Container: o.Container}) })
	case scheduler.Served:
		f := &e.fns[e.byFlow[o.Flow]]
		f.largest = max(f.largest, o.Service)
	case scheduler.Refuse:
		e.fail(fmt.Errorf("activation %d is refused: %s", o.Invocation-1, o.Reason))
	case scheduler.Unresponsive:
		e.fail(fmt.Errorf("container %d counts as unresponsive", o.Container))
	case scheduler.RemovalOverdue:
		e.fail(fmt.Errorf("container %d is not gone in time", o.Container))
	case scheduler.ReclaimHost, scheduler.Forget: // host memory is there
	}
}

// start begins an activation in its container: a new one is started and
// initialized first, one whose memory is still coming is waited for.
func (e *engine) start(o scheduler.Order) {
	j := int32(o.Invocation) - 1
	x, c := &e.executions[j], &e.containers[o.Container]
	f := &e.fns[x.fn]
	f.queued--
	f.largest = max(f.largest, o.Charged)
	e.decisions++
	e.queued--
	e.running++
	x.granted, x.dev = x.submitted+o.Waited, int32(o.Device)
	x.kind, x.container = o.Start, o.Container
	switch {
	case !x.kind.Warm():
		x.phase = waiting
		e.after(e.p.ContainerStart, func() { e.initialize(j) })
	case c.moving && c.arrives > e.now:
		x.phase = waiting
		e.after(e.p.Link.Exposed(c.arrives-e.now), func() { e.run(j) })
	default:
		e.run(j)
	}
}

// move occupies the link of a device in one direction for a transfer.
func (e *engine) move(o scheduler.Order) {
	c, d := &e.containers[o.Container], e.devices[o.Device]
	way := &d.up
	if o.Move == gpu.Evict {
		way = &d.down
	}
	*way = max(*way, e.now) + e.p.Link.Transfer(o.Bytes)
	if o.Move == gpu.Prefetch {
		c.arrives = *way
	}
	c.moving, c.epoch = true, o.Epoch
	e.after(*way-e.now, func() { e.moved(o) })
}

// moved reports a finished transfer, as the shim would. One whose order was
// replaced, or whose container is gone, is void.
func (e *engine) moved(o scheduler.Order) {
	c := &e.containers[o.Container]
	if !c.moving || c.epoch != o.Epoch {
		return
	}
	c.moving = false
	e.reportMemory(o.Container, o.Move != gpu.Evict)
	e.notify(scheduler.Event{Kind: scheduler.Moved, Container: o.Container, Epoch: o.Epoch, Bytes: o.Bytes, OK: true})
}

// reportMemory reports a container's allocated memory and its place.
func (e *engine) reportMemory(c scheduler.Container, resident bool) {
	u := gpu.Usage{Allocated: e.fns[e.containers[c].fn].Memory, Context: e.p.Context}
	if resident {
		u.Resident = u.Allocated
	}
	e.notify(scheduler.Event{Kind: scheduler.MemoryReported, Container: c, PID: 1, Usage: u})
}

func (e *engine) initialize(j int32) {
	x := &e.executions[j]
	e.notify(scheduler.Event{Kind: scheduler.Created, Container: x.container})
	e.reportMemory(x.container, true) // its allocations appear while it initializes
	if init := e.fns[x.fn].Cold - e.fns[x.fn].Warm; init > 0 {
		e.enter(j, initing, init)
	} else {
		e.initialized(j)
	}
}

func (e *engine) initialized(j int32) {
	e.notify(scheduler.Event{Kind: scheduler.Initialized, Container: e.executions[j].container})
	e.run(j)
}

func (e *engine) run(j int32) {
	e.executions[j].ran = e.now
	e.enter(j, running, e.w.Work(e.w.Arrivals[j]))
}

// enter adds an execution to the executions that use the device.
func (e *engine) enter(j int32, p phase, work time.Duration) {
	x := &e.executions[j]
	d := e.devices[x.dev]
	e.advance(d)
	x.phase, x.remaining = p, int64(work)
	d.running = append(d.running, j)
}

// advance lets the runs of a device progress up to now.
func (e *engine) advance(d *device) {
	dt := e.now - d.last
	d.last = e.now
	k := len(d.running)
	if dt <= 0 || k == 0 {
		return
	}
	work := mulDiv(int64(dt), fixed, e.slowdown(k))
	for _, j := range d.running {
		x := &e.executions[j]
		x.remaining -= work
		if x.phase == running || e.p.Sched.CountSetup {
			e.fns[x.fn].service += dt
		}
	}
	d.active += dt
	d.kernel += dt.Seconds() * min(1, e.p.KernelShare*float64(k))
}

// finish returns when the first of a device's runs ends if nothing changes.
func (e *engine) finish(d *device) (time.Duration, bool) {
	if len(d.running) == 0 {
		return 0, false
	}
	least := e.executions[d.running[0]].remaining
	for _, j := range d.running[1:] {
		least = min(least, e.executions[j].remaining)
	}
	// Rounded up, and work is rounded down: at that time the last nanosecond may be
	// missing, which completions allows for.
	return d.last + time.Duration(mulDiv(max(least, 0), e.slowdown(len(d.running)), fixed)+1), true
}

// slowdown returns s(k) in fixed point.
func (e *engine) slowdown(k int) int64 { return int64(e.p.Interference.Slowdown(k)*fixed + 0.5) }

// mulDiv returns a*b/c without overflow in between; all are positive.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// completions ends the phases of a device's runs whose work is done.
func (e *engine) completions(d *device) {
	for i := 0; i < len(d.running); {
		j := d.running[i]
		x := &e.executions[j]
		if x.remaining > 1 {
			i++
			continue
		}
		d.running = append(d.running[:i], d.running[i+1:]...)
		if x.phase == initing {
			e.initialized(j)
		} else {
			e.complete(j)
		}
	}
}

// complete ends an activation. As in an invoker, three events follow one another: the run has
// its answer; its container's memory is reported and its token is free; its logs are
// collected and its container is free. Other flows may take the token in between.
func (e *engine) complete(j int32) {
	x := &e.executions[j]
	x.phase, x.ended = finished, e.now
	e.done++
	if e.hosted {
		e.ended = append(e.ended, int(j))
	}
	v := scheduler.Event{Invocation: uint64(j) + 1, Keep: true, Ran: e.now - x.ran}
	if !x.kind.Warm() {
		v.Setup = x.ran - x.granted
	}
	send := func(kind scheduler.EventKind) {
		v.Kind = kind
		e.notify(v)
		e.touch(x.fn)
	}
	send(scheduler.Answered)
	e.after(e.p.MemoryReport, func() {
		e.running--
		e.reportMemory(x.container, true)
		send(scheduler.Ended)
	})
	e.after(max(e.p.MemoryReport, e.p.LogCollection), func() { send(scheduler.Left) })
}

// sampleLater has a device's utilization read, as NVML would, again and again.
func (e *engine) sampleLater(d *device, index int) {
	e.setTimer(timer{at: e.now + sampleEvery, reading: true, do: func() {
		e.advance(d)
		if span := (e.now - d.sampledAt).Seconds(); span > 0 {
			e.notify(scheduler.Event{Kind: scheduler.Sampled, Device: index, Utilization: min(1, d.kernel/span), Used: -1})
			d.kernel, d.sampledAt = 0, e.now
		}
		e.sampleLater(d, index)
	}})
}

// newScheduler builds the scheduler that the invoker would build on such a
// server, and names a bad parameter by its flag.
func newScheduler(p Params) (*scheduler.Scheduler, error) {
	for i := range p.GPUs {
		p.Devices = append(p.Devices, gpu.Device{Index: i, MemoryBytes: p.GPUMemory, Simulated: true})
	}
	s, err := scheduler.New(p.Config)
	if err != nil {
		return nil, errors.New(byFlag(err.Error()))
	}
	return s, nil
}

var (
	parameter = regexp.MustCompile(`sched config (\w+)=`)
	wordStart = regexp.MustCompile(`(\w)([A-Z][a-z])`)
)

// byFlag names sched's parameters by their flags: TTLAlpha is --ttl-alpha.
func byFlag(text string) string {
	return parameter.ReplaceAllStringFunc(text, func(found string) string {
		name := parameter.FindStringSubmatch(found)[1]
		return "--" + strings.ToLower(wordStart.ReplaceAllString(name, "$1-$2")) + " "
	})
}
