package invoker

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// gpuScheduler turns the GPU scheduler's orders into work and results into the GPU scheduler's
// events. The GPU scheduler alone decides. Only the dispatcher's event loop calls its methods. An invoker
// without devices has a nil gpuScheduler.
type gpuScheduler struct {
	d          *dispatcher
	settings   GPUSettings
	adopter    DeviceAdopter // nil: containers with a device end with the process
	core       *scheduler.Scheduler
	record     *recorder
	runs       map[uint64]*run     // started, and not left
	adopted    map[uint64]*adopted // to be given their containers
	containers map[scheduler.Container]*actionContainer
	named      map[string]*actionContainer // the same by the containers' names
	shares     hostMemory
	assumed    assumedMemory
	past       history
	failures   startFailures
	warmStates *warmStates         // nil in classic mode
	waiting    map[uint64]*pending // submitted and not started
}

func newGPUScheduler(d *dispatcher, adopter DeviceAdopter) (*gpuScheduler, error) {
	s := d.settings.GPU
	if len(s.Devices) == 0 {
		return nil, nil
	}
	cfg := s.schedulerConfig(d.settings.Pool, d.mover.Faults())
	core, err := scheduler.New(cfg)
	if err != nil {
		return nil, err
	}
	record, err := newRecorder(s.Record, cfg)
	if err != nil {
		return nil, err
	}
	shares := hostMemory{most: d.settings.Pool.MemoryMB, faults: d.mover.Faults()}
	for _, device := range s.Devices {
		d.metrics.lost(device, false)
		shares.device = max(shares.device, device.MemoryBytes)
	}
	return &gpuScheduler{
		d: d, settings: s, adopter: adopter, core: core, record: record,
		adopted: map[uint64]*adopted{}, waiting: map[uint64]*pending{}, runs: map[uint64]*run{}, containers: map[scheduler.Container]*actionContainer{}, named: map[string]*actionContainer{},
		shares: shares, assumed: assumedMemory{}, failures: startFailures{},
		past: history{core: core, flows: map[sched.FlowID]*flowHistory{}, functions: map[string]int{}},
	}, nil
}

// take passes an event to the GPU scheduler.
func (g *gpuScheduler) take(now time.Duration, e scheduler.Event) {
	e.At = now
	g.record.event(e)
	g.core.Take(e)
	g.warmStates.markDirty(g.containers[e.Container])
	if r := g.runs[e.Invocation]; r != nil {
		g.warmStates.markDirty(r.ctr)
	}
}

// decide lets the GPU scheduler decide and carries out its orders.
func (g *gpuScheduler) decide(now time.Duration) {
	g.reportHost(now)
	orders := g.core.Ready()
	g.record.orders(orders)
	for _, o := range orders {
		g.carryOut(now, o)
	}
	g.d.pool.SetAside(g.core.Claimed())
	g.past.observe(now, g.waiting)
	g.reportBacklog()
	g.d.reserved.Store(int64(max(g.d.pool.Reserved()-g.core.ReclaimableMB(), 0)))
	g.warmStates.observe(g.core, g.containers)
}

// reportHost reports the pool's remaining memory to the GPU scheduler if the scheduler counts
// on another amount. The pool is the owner of host memory.
func (g *gpuScheduler) reportHost(now time.Duration) {
	m := g.d.pool.Memory()
	h := scheduler.HostMemory{Free: m.Free, Reclaimable: m.Spare, Needed: m.Needed}
	if counted, known := g.core.Host(); known && counted == h {
		return
	}
	g.take(now, scheduler.Event{Kind: scheduler.HostReported, Host: h})
}

// reportBacklog has GPUBacklog return for how long the waiting activations keep the
// devices busy.
func (g *gpuScheduler) reportBacklog() {
	backlog, usable := g.core.Backlog()
	if !usable {
		backlog = -1
	}
	g.d.backlog.Store(int64(backlog))
}

// spare is the host memory that GPU containers give back when CPU actions need it, in MiB.
func (g *gpuScheduler) spare() (mb int) {
	if g != nil {
		mb = g.core.ReclaimableMB()
	}
	return mb
}

func (g *gpuScheduler) tick(now time.Duration) { g.take(now, scheduler.Event{Kind: scheduler.Tick}) }

// submit queues an activation in its flow: the function as the invoking namespace
// sees it.
func (g *gpuScheduler) submit(now time.Duration, p *pending) {
	g.waiting[p.invocation] = p
	g.d.completer.take(p, delivery.Event{Kind: delivery.SetApart, Bytes: p.size()})
	p.applyFallback(g.settings)
	due := time.Duration(0)
	if g.settings.Overdue > 0 {
		due = p.accepted + g.settings.Overdue
	}
	g.take(now, scheduler.Event{Kind: scheduler.Submitted, Invocation: p.invocation, Due: due, Function: &scheduler.Function{
		Flow: flowOf(p),
		Key:  p.key, HostMB: g.shares.of(p, func() int64 { return g.core.Footprint(flowOf(p), p.key) }), Memory: int64(p.gpu.Memory),
		NoShim: p.gpu.Shim == activation.ShimOff, Width: p.concurrency, Weight: p.gpu.Weight,
	}})
	g.past.submitted(p)
}

// carryOut does one order of the GPU scheduler.
func (g *gpuScheduler) carryOut(now time.Duration, o scheduler.Order) {
	ctr := g.containers[o.Container]
	switch o.Do {
	case scheduler.Create:
		g.make(o)
	case scheduler.Start:
		g.start(now, o, ctr)
	case scheduler.Move:
		g.move(now, o, ctr)
	case scheduler.CancelMove:
		ctr.gpu.cancelMove()
	case scheduler.Remove:
		if ctr.gpu.cancelMove != nil {
			ctr.gpu.cancelMove()
		}
		g.warmStates.markDirty(ctr)
		g.d.startRemoval(0, ctr)
	case scheduler.Refuse:
		g.refuse(o)
	case scheduler.ReclaimHost:
		g.d.pool.EvictIdle(o.HostMB)
	case scheduler.Served:
		g.served(o)
	case scheduler.Forget:
		g.d.metrics.forget(o.Flow)
		g.past.forget(o.Flow)
		delete(g.failures, o.Flow)
	case scheduler.Unresponsive:
		g.d.log.Warn("container does not answer about its device memory, given up", keyContainer, ctr.name, "order", o.Move.String())
	case scheduler.RemovalOverdue:
		g.d.log.Warn("container is not removed in time, its device memory counts as in use until it is", keyContainer, ctr.name, keyDevice, ctr.gpu.device.String())
	}
}

// make reserves host memory for a container, which its first run creates.
func (g *gpuScheduler) make(o scheduler.Order) {
	if ad := g.adopted[o.Invocation]; ad != nil { // it exists
		ad.ctr.gpu.id = o.Container
		g.enter(ad.ctr)
		return
	}
	ctr := g.d.newContainer(0, o.Flow.Namespace, path.Base(o.Flow.Function), container.Spec{MemoryMB: o.HostMB})
	ctr.gpu = &deviceState{id: o.Container, device: g.settings.Devices[o.Device], flow: o.Flow}
	if p := g.waiting[o.Invocation]; p != nil {
		ctr.specify(g.d.settings, p)
	}
	g.enter(ctr)
	if !g.d.pool.Reserve(o.HostMB) {
		g.d.log.Error("host memory that was free is not there", keyContainer, ctr.name, "megabytes", o.HostMB)
		return
	}
	ctr.gpu.reserved = o.HostMB
}

func (g *gpuScheduler) enter(ctr *actionContainer) {
	g.warmStates.markDirty(ctr)
	g.containers[ctr.gpu.id], g.named[ctr.name] = ctr, ctr
}

// start starts a run.
func (g *gpuScheduler) start(now time.Duration, o scheduler.Order, ctr *actionContainer) {
	p := g.waiting[o.Invocation]
	delete(g.waiting, o.Invocation)
	ctr.specify(g.d.settings, p)
	r := &run{pending: p, ctr: ctr, start: container.Warm, first: o.FirstRun}
	if !o.Start.Warm() {
		r.start = container.Cold
	}
	r.lease = &lease{device: ctr.gpu.device.String(), kind: o.Start, need: o.Need, waited: o.Waited, hostMB: ctr.gpu.reserved, fallback: ctr.gpu.fallback}
	r.lease.memory.Store(o.Memory)
	r.lease.measured.Store(ctr.gpu.measured)
	if t := ctr.gpu.transfer; t != nil && t.epoch == o.Transfer {
		r.lease.transfer = t
	}
	g.past.started(now, r, o, g.runs)
	g.runs[o.Invocation] = r
	ctr.gpu.runs = append(ctr.gpu.runs, r)
	g.d.metrics.gpuStarts.WithLabelValues(o.Start.String()).Inc()
	g.d.metrics.queued(o.Flow, o.Waited)
	g.d.goWork(func(ctx context.Context) { g.d.worker.do(ctx, r) })
}

// move has the mover carry out an order, until the next one comes.
func (g *gpuScheduler) move(now time.Duration, o scheduler.Order, ctr *actionContainer) {
	if ctr.gpu.cancelMove != nil {
		ctr.gpu.cancelMove()
	}
	if t := ctr.gpu.transfer; o.Move == gpu.Prefetch && (t == nil || t.epoch != o.Epoch) {
		ctr.gpu.transfer = &transfer{epoch: o.Epoch, began: now}
	}
	current, end := context.WithCancel(g.d.work)
	ctr.gpu.cancelMove = end
	order := gpu.Order{Kind: o.Move, Container: ctr.name, Epoch: o.Epoch, Bytes: o.Bytes, Again: o.Again}
	size := ctr.outgrows(o)
	g.d.goWork(func(context.Context) {
		defer end()
		bytes, err := int64(0), g.d.resize(current, ctr, size)
		if err == nil {
			bytes, err = g.d.mover.Move(current, order, o.Footprint)
		}
		g.d.post(moved{ctr, order, bytes, err})
	})
}

// served records a run's use of its device.
func (g *gpuScheduler) served(o scheduler.Order) {
	g.d.metrics.served(o.Flow, o.Service)
	g.past.touched = append(g.past.touched, o.Flow)
	if r := g.runs[o.Invocation]; r != nil {
		r.lease.memory.Store(o.Memory)
	}
}

// over takes the end of a run's use of its token.
func (g *gpuScheduler) over(now time.Duration, e left) {
	e.run.lease.tokenFree = true
	g.failures.ended(e.run, e.keep)
	g.take(now, e.event(scheduler.Ended))
}

// left takes a run's leaving of its container.
func (g *gpuScheduler) left(now time.Duration, e left) {
	g.failures.ended(e.run, e.keep)
	g.take(now, e.event(scheduler.Left))
	delete(g.runs, e.run.invocation)
	ctr := e.run.ctr
	ctr.gpu.runs = slices.DeleteFunc(ctr.gpu.runs, func(r *run) bool { return r == e.run })
}

// gone frees the memory of a removed container.
func (g *gpuScheduler) gone(now time.Duration, ctr *actionContainer) {
	delete(g.containers, ctr.gpu.id)
	delete(g.named, ctr.name)
	g.d.pool.Release(now, ctr.gpu.reserved)
	g.take(now, scheduler.Event{Kind: scheduler.Removed, Container: ctr.gpu.id})
	g.assumed.assume(ctr, 0)
	g.resident(ctr.gpu.flow)
}

func (g *gpuScheduler) resident(id sched.FlowID) {
	all, known := g.core.Resident(id)
	g.d.metrics.resident(id, g.assumed, all, known)
}

// refuse answers an activation that will never run here.
func (g *gpuScheduler) refuse(o scheduler.Order) {
	p := g.waiting[o.Invocation]
	delete(g.waiting, o.Invocation)
	if p.leftBehind {
		g.d.completer.take(p, delivery.Event{Kind: delivery.Left})
		return
	}
	if o.Reason == scheduler.WasWithdrawn && p.withdrawn {
		p.withdrawn = false
		g.d.handBack(p)
		return
	}
	g.d.refuse(p, g.refusal(o, p.key))
}

// moved takes the end of the mover's work on an order.
func (g *gpuScheduler) moved(now time.Duration, e moved) {
	ctr := e.ctr
	if g.containers[ctr.gpu.id] != ctr {
		return
	}
	if e.err != nil {
		ctr.gpu.spill = 0 // whether it was resized is not known
	}
	g.d.metrics.moved(ctr.gpu.flow, e.order.Kind, min(e.bytes, ctr.gpu.device.MemoryBytes))
	if t := ctr.gpu.transfer; e.err == nil && t != nil && t.epoch == e.order.Epoch {
		t.took.CompareAndSwap(0, int64(max(now-t.began, 1)))
	}
	g.take(now, scheduler.Event{Kind: scheduler.Moved, Container: ctr.gpu.id, Epoch: e.order.Epoch, Bytes: e.bytes, OK: e.err == nil})
}

// memoryReported applies a process' report about its memory.
func (g *gpuScheduler) memoryReported(now time.Duration, h gpu.MemoryReport) {
	ctr := g.named[h.Container]
	if ctr == nil {
		return
	}
	if u := h.Usage; !h.Exited && (u.Allocated < 0 || u.Resident < 0 || u.Context < 0) {
		g.d.log.Warn("gpu usage refused: a size is negative", keyContainer, ctr.name, "pid", h.PID)
		return
	}
	if h.Unfit != "" {
		if h.Weak {
			if g.d.suspect(ctr, h.Unfit) {
				g.take(now, scheduler.Event{Kind: scheduler.Failed, Container: ctr.gpu.id})
			}
		} else if g.d.fallBack(ctr, h.Unfit) {
			for _, id := range unfit(g.containers, ctr.gpu.action) {
				g.take(now, scheduler.Event{Kind: scheduler.Failed, Container: id})
			}
		}
		return
	}
	if h.Over != "" && ctr.life.Err() == nil {
		g.d.log.Warn("gpu container ended", keyContainer, ctr.name, "pid", h.PID, "reason", h.Over)
		ctr.die(&overLimit{h.Over})
		g.take(now, scheduler.Event{Kind: scheduler.Failed, Container: ctr.gpu.id})
	}
	ctr.gpu.reported(h)
	if more := g.shares.more(ctr, h, g.d.pool.Memory().Free); more > 0 && g.d.pool.Reserve(more) {
		ctr.gpu.reserved += more
		g.take(now, scheduler.Event{Kind: scheduler.HostGrown, Container: ctr.gpu.id, Bytes: int64(ctr.gpu.reserved)})
	}
	g.take(now, scheduler.Event{Kind: scheduler.MemoryReported, Container: ctr.gpu.id, PID: h.PID, Usage: h.Usage, Exited: h.Exited})
	if !h.Exited {
		ctr.gpu.measured = !h.Assumed
		g.assumed.assume(ctr, ctr.gpu.unseen())
	}
	for _, r := range ctr.gpu.runs {
		r.lease.measured.Store(ctr.gpu.measured)
		if n, ok := g.core.Memory(r.invocation); ok {
			r.lease.memory.Store(n)
		}
	}
	g.resident(ctr.gpu.flow)
}

// observe takes readings of devices.
func (g *gpuScheduler) observe(now time.Duration, readings []gpu.Reading) {
	if g == nil {
		return
	}
	for _, r := range readings {
		if r.Device < 0 || r.Device >= len(g.settings.Devices) {
			continue
		}
		if !(r.Utilization >= 0) { // also true for NaN
			r.Utilization = -1
		}
		g.take(now, scheduler.Event{Kind: scheduler.Sampled, Device: r.Device, Utilization: min(r.Utilization, 1), Used: r.Used})
		if d := g.core.Device(r.Device); d.Sampled && d.Lost == "" {
			g.d.metrics.gpuUtilization.WithLabelValues(DeviceLabelValues(d.Device)...).Set(d.Utilization)
		}
	}
}

// deviceChanged applies the loss or return of a device or its daemon. Runs on a lost device
// are ended.
func (g *gpuScheduler) deviceChanged(now time.Duration, e scheduler.Event) {
	if g == nil || e.Device < 0 || e.Device >= len(g.settings.Devices) {
		return
	}
	before := g.core.Device(e.Device).Lost
	g.take(now, e)
	d := g.core.Device(e.Device)
	if (before == "") == (d.Lost == "") {
		return
	}
	g.d.metrics.lost(d.Device, d.Lost != "")
	defer g.d.devicesChanged(now)
	if d.Lost == "" {
		g.d.log.Info("device is back", keyDevice, d.Device.String(), "was", before)
		return
	}
	g.d.log.Error("device lost", keyDevice, d.Device.String(), "reason", d.Lost)
	for _, ctr := range g.containers {
		if ctr.gpu.device.Index == e.Device {
			ctr.die(errDeviceLost)
		}
	}
}

// usable reports whether any device can be used.
func (g *gpuScheduler) usable() bool { return g != nil && g.core.Usable() }
