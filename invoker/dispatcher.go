package invoker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/outage"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// event is something that happened outside of the cores. The dispatcher
// applies it and then looks for what can go on.
type event interface {
	apply(d *dispatcher, now time.Duration)
}

// box is one container with what is needed to use it. The dispatcher makes
// and forgets boxes. handle and talk are written by the worker that creates
// the container, before its event; from then on they do not change.
type box struct {
	slot   container.SlotID // in the CPU pool, 0 for a GPU container
	name   string
	key    string // what its runs share it under, as its note has it
	spec   container.Spec
	handle container.Handle
	talk   Talk
	gpu    *gpuBox         // nil in the CPU lane
	life   context.Context // ends when the container has ended by itself
	die    context.CancelCauseFunc
	living living // of its runs

	logs chan struct{} // holds one while an activation's logs are read
	tab  tab

	place int // among those that are shown

	marked atomic.Int32 // runs in it, as marks count them
}

// errDeviceLost ends the life of a container whose device is lost.
var errDeviceLost = errors.New("device lost")

// overLimit ends the life of a container that holds more device memory than it
// may. Its text is for the action's author.
type overLimit struct{ text string }

func (e *overLimit) Error() string { return e.text }

// lost tells whether the container has lost its device, or the right to it.
func (b *box) lost() bool {
	cause := context.Cause(b.life)
	return errors.Is(cause, errDeviceLost) || errors.As(cause, new(*overLimit))
}

// farewell answers a run whose container was lost under it.
func (b *box) farewell() activation.Response {
	var over *overLimit
	if errors.As(context.Cause(b.life), &over) {
		return activation.ErrorResponse(activation.StatusDeveloperError, over.text)
	}
	return activation.ErrorResponse(activation.StatusWhiskError, textDeviceLost)
}

// dispatcher owns the cores: the container pool and the GPU lane. What it
// touches is touched by whoever has its turn (turns) and by nobody else. It
// never blocks: what is slow goes to a goroutine that answers with an event.
type dispatcher struct {
	settings Settings
	engine   Engine
	tabs     *tabs
	dial     Dialer
	metrics  *Metrics
	log      *slog.Logger
	marks    *marks
	clock    func() time.Duration
	run      func(r *run)                       // starts a worker
	turnAway func(t *ticket, j *job, r refusal) // answers; j is nil where nothing is known of the action

	turns   turns
	work    context.Context // ends when running work must stop
	workers sync.WaitGroup  // of which some rest
	hands   hands

	pool      *container.Pool
	gpus      *gpuLane // nil without devices
	jobs      map[uint64]*job
	boxes     map[container.SlotID]*box
	alive     map[container.ID]*box
	early     map[container.ID]bool // died before we heard that they exist
	next      uint64
	named     int64
	shown     shown
	questions []question    // to be answered when all is decided
	looking   *look         // nil: nobody's answer is being made
	told      time.Duration // before that nobody who waits is told of
	closed    bool          // nothing more is started

	inspect func() // of tests: looks at the cores after every step
}

// settle lets the cores decide until nothing more can go on, and hands out
// what they ordered.
func (d *dispatcher) settle(now time.Duration) {
	if d.closed {
		return
	}
	for {
		p, ok := d.pool.Next(now)
		if !ok {
			break
		}
		d.place(now, p)
	}
	d.waiting(now)
	d.gpus.settle(now)
	if d.inspect != nil {
		d.inspect()
	}
	for _, o := range d.pool.Orders() {
		d.carryOut(o)
	}
}

// place starts a worker for an activation in its container.
func (d *dispatcher) place(now time.Duration, p container.Placement) {
	j := d.jobs[p.Item]
	delete(d.jobs, p.Item)
	b := d.boxes[p.Slot]
	if b == nil {
		b = d.newBox(p.Slot, j.User.Namespace.Name, j.action.Name, func(name string) container.Spec {
			e := j.action.Exec
			return d.settings.spec(name, e.Kind, e.Image, e.Pull, j.action.Limits.MemoryMB)
		})
	}
	j.placed(now, p.Start.String(), b.name)
	d.metrics.started(p.Start.String())
	d.metrics.waited(now - j.queued)
	d.run(&run{job: j, box: b, start: p.Start, resume: p.Resume, first: p.First})
}

func (d *dispatcher) newBox(slot container.SlotID, prefix, suffix string, spec func(name string) container.Spec) *box {
	d.named++
	b := d.ownBox(spec(containerName(d.settings.Prefix, d.named, prefix, suffix)))
	if b.slot = slot; slot != 0 {
		d.boxes[slot] = b
		d.shown.enter(b)
	}
	return b
}

func (d *dispatcher) ownBox(spec container.Spec) *box {
	b := &box{name: spec.Name, spec: spec, logs: make(chan struct{}, 1)}
	b.life, b.die = context.WithCancelCause(context.Background())
	return b
}

// carryOut does one order of the pool in a goroutine of its own.
func (d *dispatcher) carryOut(o container.Order) {
	switch o.Do {
	case container.CreatePrewarm:
		d.createPrewarm(o)
	case container.Pause:
		b := d.boxes[o.Slot]
		d.goWork(func(ctx context.Context) {
			b.talk.Close() // nobody answers while it is paused
			d.tabs.mark(b, container.Pausing)
			ended := d.marks.nanny("pause", b)
			err := d.engine.Pause(ctx, b.handle.ID)
			ended(err)
			if err != nil && ctx.Err() == nil {
				d.log.Warn("pause container", keyContainer, b.name, "error", err)
			}
			if err == nil {
				d.tabs.mark(b, container.Resting)
			}
			d.post(pausedEvent{o.Slot, err == nil})
		})
	case container.Remove:
		d.remove(d.boxes[o.Slot], goneEvent{o.Slot})
	}
}

func (d *dispatcher) createPrewarm(o container.Order) {
	image, ok := d.settings.Images(o.Kind)
	if !ok {
		d.pool.Gone(d.clock(), o.Slot)
		return
	}
	b := d.newBox(o.Slot, "prewarm", o.Kind, func(name string) container.Spec {
		return d.settings.spec(name, o.Kind, image, false, o.MemoryMB)
	})
	d.goWork(func(ctx context.Context) {
		ended := d.marks.warmup(b)
		err := d.open(ctx, b, 1)
		if ended(err); err != nil {
			d.log.Warn("create prewarmed container", keyContainer, b.name, "kind", o.Kind, "error", err)
			d.post(goneEvent{o.Slot})
			return
		}
		d.tabs.prewarmed(b)
		d.post(prewarmedEvent{b})
	})
}

// open creates a box's container. Called by workers.
func (d *dispatcher) open(ctx context.Context, b *box, concurrency int) error {
	if b.gpu != nil {
		if err := d.prepare(b); err != nil {
			return err
		}
	}
	h, err := d.engine.Create(ctx, b.spec)
	if err != nil {
		return err
	}
	b.handle = h
	b.talk = d.dial(h.Addr, concurrency)
	return nil
}

// prepare adds to a GPU container's spec what its device memory needs.
func (d *dispatcher) prepare(b *box) error {
	needs, err := d.gpus.mover.Prepare(b.name, b.gpu.device, b.gpu.wish)
	if err != nil {
		return &container.CreateError{
			Blame:   container.BlameWhisk,
			Message: "Failed to provision resources to run the action.",
			Err:     fmt.Errorf("prepare %s for device %s: %w", b.name, b.gpu.device, err),
		}
	}
	b.spec.GPU = &needs
	return nil
}

// remove takes a box's container away and posts done when its memory is free.
// A container that cannot be removed now is tried again for as long as work
// may go on: its memory is taken all that time, which is the truth.
func (d *dispatcher) remove(b *box, done event) {
	if b != nil {
		delete(d.alive, b.handle.ID)
	}
	d.goWork(func(ctx context.Context) {
		d.tabs.drop(b)
		if b != nil && b.handle.ID != "" {
			b.talk.Close()
			d.removeUntilGone(ctx, b)
			b.living.gone()
		}
		if b != nil && b.gpu != nil {
			d.gpus.mover.Forget(b.name)
		}
		d.post(done)
	})
}

func (d *dispatcher) removeUntilGone(ctx context.Context, b *box) {
	for pace := (outage.Pace{Min: time.Second, Max: time.Minute}); ; {
		ended := d.marks.nanny("rm", b)
		err := d.engine.Remove(ctx, b.handle.ID)
		if ended(err); err == nil || ctx.Err() != nil {
			return
		}
		wait := pace.Next()
		d.log.Warn("remove container, will try again", keyContainer, b.name, "error", err, "again", wait)
		if !outage.Wait(ctx, wait) {
			return
		}
	}
}

// hangUp ends the talks with all containers. It is called when nobody works any
// more, and before the containers are removed: the kernel goes on saying goodbye
// to an address that nobody has, and asks for its owner but once a second. The
// container that gets the address next, one of the process that follows, could
// not be reached for that long.
func (d *dispatcher) hangUp() {
	for _, b := range d.alive {
		b.talk.Close()
	}
	for _, b := range d.boxes {
		if b.talk != nil {
			b.talk.Close()
		}
	}
}

// goWork runs f beside the dispatcher, from whose goroutine it is called. The
// invoker waits for all of it at the end, so nothing starts once it is closed.
func (d *dispatcher) goWork(f func(ctx context.Context)) {
	if d.closed {
		return
	}
	d.hands.do(d.work, &d.workers, f)
}

// String names a box for logs.
func (b *box) String() string { return fmt.Sprintf("%s (%s)", b.name, b.handle.ID) }
