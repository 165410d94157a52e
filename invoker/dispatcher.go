package invoker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// event is something that happened outside the cores. The dispatcher applies it and then lets
// the cores decide.
type event interface {
	apply(d *dispatcher, now time.Duration)
}

// dispatcher owns the cores: the container pool and the GPU scheduler. Its event loop is one
// goroutine, and only that goroutine touches the state from pool on. The loop never blocks.
// Blocking work runs in its own goroutine (goWork), which uses the executor and reports with
// an event.
type dispatcher struct {
	*executor
	settings  Settings
	metrics   *Metrics
	clock     func() time.Duration
	worker    *worker
	completer *completer

	loop    eventLoop
	work    context.Context // ends when running work must stop
	workers sync.WaitGroup  // goWork's

	pool       *container.Pool
	gpus       *gpuScheduler // nil without devices
	pins       *pins
	events     Events           // nil in classic mode
	passOn     func(p *pending) // forwards an activation; nil: none is
	backlog    atomic.Int64     // see Invoker.GPUBacklog; below 0 without a usable device
	draining   bool
	deadline   time.Duration       // of the stop, once it drains
	reserved   atomic.Int64        // see Invoker.ReservedMB
	queued     map[uint64]*pending // of the CPU path
	containers map[container.SlotID]*actionContainer
	alive      map[container.ID]*actionContainer
	early      map[container.ID]bool // died before their creation was reported
	next       uint64
	named      int64
	questions  []question // answered when all is decided
	closed     bool       // nothing more is started

	inspect func() // of tests: checks the cores after every step
}

// decide lets the cores decide until they have nothing more to start, and carries out their
// orders.
func (d *dispatcher) decide(now time.Duration) {
	if d.closed {
		return
	}
	for {
		p, ok := d.pool.Next(now)
		if !ok {
			break
		}
		d.startRun(now, p)
	}
	if d.gpus != nil {
		d.gpus.decide(now)
	}
	if d.inspect != nil {
		d.inspect()
	}
	for _, o := range d.pool.Orders() {
		d.carryOut(o)
	}
}

// startRun starts the run of an activation in its container.
func (d *dispatcher) startRun(now time.Duration, placement container.Placement) {
	if pin := d.pins.waiting[placement.Invocation]; pin != nil {
		d.pins.start(pin, placement)
		return
	}
	p := d.queued[placement.Invocation]
	delete(d.queued, placement.Invocation)
	ctr := d.containers[placement.Slot]
	if ctr == nil {
		ctr = d.newContainer(placement.Slot, p.User.Namespace.Name, p.action.Name, d.settings.spec(p.action.Exec, p.action.Limits.MemoryMB))
	}
	r := &run{pending: p, ctr: ctr, start: placement.Start, resume: placement.Resume, first: placement.First}
	if ctr.pin != nil { // the first run initialises the container
		r.start = container.Prewarmed
		if ctr.pin.warm {
			r.start = container.Warm
		}
	}
	if ctr.function == (sched.FlowID{}) { // its first run, which initialises it for one function
		ctr.function = flowOf(p)
	}
	d.observe.placed(p, now, r.start.String(), ctr.name)
	d.goWork(func(ctx context.Context) { d.worker.do(ctx, r) })
}

// refuse answers a pending activation that will not run here. It does not block.
func (d *dispatcher) refuse(p *pending, e *ending) {
	d.goWork(func(context.Context) {
		defer d.completer.rescue(p)
		d.completer.end(p, *e)
	})
}

// newContainer names a container and gives it a slot of the pool, unless slot is 0.
func (d *dispatcher) newContainer(slot container.SlotID, prefix, suffix string, spec container.Spec) *actionContainer {
	d.named++
	spec.Name = containerName(d.settings.Prefix, d.named, prefix, suffix)
	ctr := d.makeContainer(spec)
	if ctr.slot = slot; slot != 0 {
		d.containers[slot] = ctr
	}
	return ctr
}

func (d *dispatcher) makeContainer(spec container.Spec) *actionContainer {
	ctr := &actionContainer{name: spec.Name, spec: spec}
	ctr.life, ctr.die = context.WithCancelCause(context.Background())
	return ctr
}

// carryOut carries out one order of the pool in a new goroutine.
func (d *dispatcher) carryOut(o container.Order) {
	switch o.Do {
	case container.CreatePrewarm:
		d.createPrewarm(o)
	case container.Pause:
		ctr := d.containers[o.Slot]
		d.goWork(func(ctx context.Context) { d.post(pausedEvent{o.Slot, d.pause(ctx, ctr)}) })
	case container.Remove:
		d.pins.lose(d.clock(), d.containers[o.Slot])
		d.startRemoval(o.Slot, d.containers[o.Slot])
	}
}

func (d *dispatcher) createPrewarm(o container.Order) {
	image, ok := d.settings.Images(o.Kind)
	if !ok {
		d.pool.Gone(d.clock(), o.Slot)
		return
	}
	ctr := d.newContainer(o.Slot, "prewarm", o.Kind, d.settings.spec(activation.Exec{Kind: o.Kind, Image: image}, o.MemoryMB))
	d.goWork(func(ctx context.Context) {
		if err := d.open(ctx, ctr, 1); err != nil {
			d.log.Warn("create prewarmed container", keyContainer, ctr.name, "kind", o.Kind, "error", err)
			d.remove(ctx, ctr)
			d.post(gone{slot: o.Slot})
			return
		}
		d.stateFiles.prewarmed(ctr)
		d.post(opened{ctr})
	})
}

// startRemoval starts the removal of a container. ctr is nil if the container was never
// created.
func (d *dispatcher) startRemoval(slot container.SlotID, ctr *actionContainer) {
	if ctr != nil {
		delete(d.alive, ctr.handle.ID)
	}
	d.goWork(func(ctx context.Context) {
		if ctr != nil {
			d.remove(ctx, ctr)
		}
		d.post(gone{slot, ctr})
	})
}

// goWork runs f in a goroutine. Only the dispatcher's goroutine may call it. The invoker waits
// for all such work at its end, so nothing starts after it is closed.
func (d *dispatcher) goWork(f func(ctx context.Context)) {
	if d.closed {
		return
	}
	d.workers.Go(func() { f(d.work) })
}

// eventLoop has the queue of the dispatcher's events and a timer for changes over time.
// Posting never blocks, so events may be posted under locks, by the dispatcher itself, and
// after the loop has ended.
type eventLoop struct {
	timer *time.Timer
	armed time.Duration // the time to which timer is set
	wake  chan struct{} // capacity 1: events wait

	mu      sync.Mutex
	waiting []event
	closed  bool
}

func newEventLoop() eventLoop { return eventLoop{wake: make(chan struct{}, 1)} }

// post adds an event to the queue of the loop.
func (d *dispatcher) post(e event) {
	l := &d.loop
	l.mu.Lock()
	if !l.closed {
		l.waiting = append(l.waiting, e)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// crowded reports whether very many events wait. Readings of devices are dropped then, because
// newer readings follow.
func (d *dispatcher) crowded() bool {
	const many = 256
	d.loop.mu.Lock()
	defer d.loop.mu.Unlock()
	return len(d.loop.waiting) >= many
}

// serve applies events until idle is closed, which means that all workers have ended.
func (d *dispatcher) serve(idle <-chan struct{}) {
	l := &d.loop
	l.timer = time.NewTimer(0)
	defer l.timer.Stop()
	for {
		select {
		case <-l.wake:
			l.mu.Lock()
			events := l.waiting
			l.waiting = nil
			l.mu.Unlock()
			d.apply(events...)
		case <-l.timer.C:
			d.apply(tick{})
		case <-idle:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.closed = true
			return
		}
	}
}

// apply applies events and then decides once, so that one pass over the cores serves a burst.
func (d *dispatcher) apply(events ...event) {
	now := d.clock()
	for _, e := range events {
		e.apply(d, now)
	}
	d.decide(now)
	d.arm(now)
	if len(d.questions) > 0 {
		d.answerStatus()
	}
}

// tick is the event of the timer. The passing of time may have changed the state.
type tick struct{}

func (tick) apply(d *dispatcher, now time.Duration) {
	d.loop.armed = 0
	d.pool.Tick(now)
	if d.gpus != nil {
		d.gpus.tick(now)
	}
}

// arm sets the timer to the next deadline of the cores. A deadline that no longer exists costs
// one needless tick.
func (d *dispatcher) arm(now time.Duration) {
	next := now + time.Hour
	if at, ok := d.pool.Deadline(); ok {
		next = min(next, at)
	}
	if d.gpus != nil {
		if at, ok := d.gpus.core.Deadline(); ok {
			next = min(next, at)
		}
	}
	if l := &d.loop; l.armed <= now || next < l.armed {
		l.armed = next
		l.timer.Reset(max(next-now, 0))
	}
}
