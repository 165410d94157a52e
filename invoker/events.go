package invoker

import (
	"cmp"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// arrived is a job that wants to run, for the first time or again because its
// container turned out to be gone before it had begun.
type arrived struct{ job *job }

func (e arrived) apply(d *dispatcher, now time.Duration) {
	d.next++
	e.job.item, e.job.queued = d.next, now
	e.job.stood(now)
	if e.job.gpu != nil {
		d.gpus.submit(now, e.job)
		return
	}
	d.jobs[e.job.item] = e.job
	d.pool.Enqueue(now, e.job.demand())
}

// opened says that a container exists; deaths of it are known from here on.
type opened struct{ box *box }

func (e opened) apply(d *dispatcher, now time.Duration) {
	if e.box.gpu != nil {
		d.gpus.take(now, lane.Event{Kind: lane.Made, Box: e.box.gpu.id})
	}
	d.enliven(now, e.box)
}

// enliven watches over a new container. Its death may have been told before
// its creation was.
func (d *dispatcher) enliven(now time.Duration, b *box) {
	d.alive[b.handle.ID] = b
	if d.early[b.handle.ID] {
		delete(d.early, b.handle.ID)
		died{b.handle.ID}.apply(d, now)
	}
}

// warmed says that a container is initialised and may take more runs of the
// same action.
type warmed struct{ box *box }

func (e warmed) apply(d *dispatcher, now time.Duration) {
	if e.box.gpu != nil {
		d.gpus.take(now, lane.Event{Kind: lane.Warmed, Box: e.box.gpu.id})
		return
	}
	d.pool.Warmed(now, e.box.slot)
}

// left says that an activation has left its container. unused means that it
// has not begun there, and will run elsewhere.
type left struct {
	run    *run
	keep   bool
	unused bool
}

func (e left) apply(d *dispatcher, now time.Duration) {
	if e.run.grant != nil {
		d.gpus.left(now, e)
		return
	}
	d.pool.Done(now, e.run.box.slot, e.keep)
}

type prewarmedEvent struct{ box *box }

func (e prewarmedEvent) apply(d *dispatcher, now time.Duration) {
	d.pool.Started(now, e.box.slot)
	d.enliven(now, e.box)
}

type pausedEvent struct {
	slot container.SlotID
	ok   bool
}

func (e pausedEvent) apply(d *dispatcher, now time.Duration) { d.pool.Paused(now, e.slot, e.ok) }

type goneEvent struct{ slot container.SlotID }

func (e goneEvent) apply(d *dispatcher, now time.Duration) {
	if b := d.boxes[e.slot]; b != nil {
		d.shown.leave(b)
	}
	delete(d.boxes, e.slot)
	d.pool.Gone(now, e.slot)
}

// died says that a container ended or vanished by itself. A run in it finds
// out by its connection, an initialisation by the box's word; nobody new is
// sent there.
type died struct{ id container.ID }

// earlyDeaths bounds how many deaths of unknown containers are remembered:
// most belong to containers that were being removed.
const earlyDeaths = 1000

func (e died) apply(d *dispatcher, now time.Duration) {
	b, ok := d.alive[e.id]
	if !ok {
		if len(d.early) >= earlyDeaths {
			clear(d.early)
		}
		d.early[e.id] = true
		return
	}
	delete(d.alive, e.id)
	b.die(nil)
	if b.gpu != nil {
		d.gpus.take(now, lane.Event{Kind: lane.Died, Box: b.gpu.id})
		return
	}
	d.pool.Failed(b.slot)
}

// observed is what devices show at a moment.
type observed struct{ readings []gpu.Reading }

func (e observed) apply(d *dispatcher, now time.Duration) { d.gpus.observe(now, e.readings) }

type deviceLost struct {
	index int
	of    lane.Loss
	why   string
}

func (e deviceLost) apply(d *dispatcher, now time.Duration) {
	d.gpus.comes(now, lane.Event{Kind: lane.Lost, Device: e.index, Of: e.of, Why: cmp.Or(e.why, "no reason given")})
}

type deviceBack struct {
	index int
	of    lane.Loss
}

func (e deviceBack) apply(d *dispatcher, now time.Duration) {
	d.gpus.comes(now, lane.Event{Kind: lane.Back, Device: e.index, Of: e.of})
}

// answered says that a run has its response and its container stays.
type answered struct{ run *run }

func (e answered) apply(d *dispatcher, now time.Duration) {
	d.gpus.take(now, lane.Event{Kind: lane.Answered, Item: e.run.item})
}

// over says that a run's part on the GPU has ended and what its container holds
// is known; the container is still busy with it until it has left. seen is
// closed when the dispatcher knows it, and with it all that it was told before.
type over struct {
	run  *run
	keep bool
	seen chan struct{}
}

func (e over) apply(d *dispatcher, now time.Duration) {
	d.gpus.over(now, left{run: e.run, keep: e.keep})
	close(e.seen)
}

// gpuGone says that a GPU container is removed and its memory free.
type gpuGone struct{ box *box }

func (e gpuGone) apply(d *dispatcher, now time.Duration) { d.gpus.gone(now, e.box) }

// held is what a process of a GPU container says it holds.
type held struct{ gpu.Held }

func (e held) apply(d *dispatcher, now time.Duration) { d.gpus.heard(now, e.Held) }

// moved says that the mover's work on an order has ended.
type moved struct {
	box   *box
	order gpu.Order
	bytes int64
	err   error // the order is not carried out, or nobody knows
}

func (e moved) apply(d *dispatcher, now time.Duration) { d.gpus.moved(now, e) }
