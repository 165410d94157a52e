package scheduler

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// run is an invocation that was granted a token, until it has left its container.
//
//	granted -> standing -> begun (Start) -> answered -> over -> left
type run struct {
	in        *invocation
	rev       *revision
	container *container
	kind      sched.StartKind
	need      gpu.Need
	asked     int64         // bytes of data that were reserved
	granted   time.Duration // when
	waited    time.Duration // before that
	charged   time.Duration
	first     bool // no other run was at work in the container
	begun     bool
	answered  bool // the answer is there and the container stays
	over      bool // the token is given back; the container is not, yet
	lent      bool // answered, and its slot in the container is another run's

	launched time.Duration
	before   uint64 // epoch of the order that was carried out when it was granted
	transfer uint64 // epoch of the prefetch that served it, 0 for none
	// peak is the most that the container held since the grant, negative as long as it
	// has not said.
	peak int64
	// shared sums the time since the launch, times the runs on the device in it.
	shared time.Duration
}

// grantNext gives one token away; false when nothing may and can run.
func (l *Scheduler) grantNext() bool {
	c, ok := l.policy.Next(l.now)
	if !ok {
		return false
	}
	in := l.invocations[c.Invocation]
	rev, dev := in.rev, l.devices[c.Device]
	b, kind, lent := l.take(dev, rev, c.Invocation)
	if b == nil {
		l.misjudged++
		l.policy.Undo(l.now, c.Invocation)
		return false
	}
	own := b
	if !kind.Warm() {
		own = nil
	}
	r := &run{
		in: in, rev: rev, container: b, kind: kind, need: l.need(dev, rev, own),
		granted: l.now, waited: c.Waited, charged: c.Charged, first: b.allAnswered(), peak: -1,
	}
	if lent != nil {
		lent.lent = true
	}
	if b.move.arrived {
		r.before = b.move.epoch
	}
	r.asked = r.need.Bytes
	if rev.noShim {
		r.asked = r.need.Context - l.cfg.Context
	}
	if b.reported {
		r.peak = l.footprint(b)
	}
	f := rev.flow
	l.dequeue(f, in)
	in.run = r
	f.runs++
	dev.inFlight++
	b.runs = append(b.runs, r)
	l.setDirty(b)
	l.becomeBusy(b)
	l.load(f)
	l.reserve(r)
	return true
}

// take takes a container of a revision that takes another run, or a slot that was
// promised, or makes a new container; nil when none of these can be had.
func (l *Scheduler) take(dev *device, rev *revision, invocation uint64) (*container, sched.StartKind, *run) {
	own, kind, promised := l.serving(dev, rev)
	switch {
	case own != nil && promised != nil:
		return own, kind, promised
	case own != nil:
		dev.pool.Take(l.now, rev)
		return own, kind, nil
	case !l.hasSlot(dev) || !l.affords(rev):
		return nil, kind, nil
	}
	if l.cfg.Pool.Size > 0 && dev.pool.Full() {
		if _, ok := l.evictContainer(dev); !ok {
			return nil, kind, nil
		}
	}
	return l.newContainer(dev, rev, invocation), kind, nil
}

// footprint is what a container's processes hold altogether, less contexts.
func (l *Scheduler) footprint(b *container) int64 {
	if b.rev.noShim {
		return max(0, b.dev.ledger.Overhead(b.name)-l.cfg.Context)
	}
	_, footprint := b.dev.ledger.Residency(b.name)
	return footprint
}

// memory is the most that a run's container held, or, of a container that has not said,
// what was set aside.
func (r *run) memory() int64 {
	if r.peak >= 0 {
		return r.peak
	}
	return r.asked
}

// reserve asks the ledger for the run's memory; the run starts when the
// reservation stands.
func (l *Scheduler) reserve(r *run) {
	b := r.container
	standing, err := b.dev.ledger.Reserve(l.now, b.name, r.need)
	if err != nil {
		l.refuseRun(r, err)
		return
	}
	l.enforceLimit(r)
	if b.move.open && !b.dev.ledger.Awaits(b.name, b.move.epoch) {
		l.cancelMove(b)
	}
	if standing {
		l.starting = append(l.starting, r)
		return
	}
	b.waiting = append(b.waiting, r)
}

// refuseRun ends a run whose memory can never be had.
func (l *Scheduler) refuseRun(r *run, err error) {
	why := TooBig
	if !errors.Is(err, gpu.ErrTooBig) {
		why = Broken
	}
	l.order(Order{
		Do: Refuse, Invocation: r.in.id, Container: r.container.id, Device: r.container.dev.Index, Flow: r.rev.flow.id,
		Reason: why, Memory: r.asked, LargestDevice: l.largest, Waited: r.waited,
	})
	l.policy.Abandon(l.now, r.in.id)
	r.container.dev.inFlight--
	l.leave(r, r.kind.Warm())
	l.end(r)
}

// end forgets a run that has left its container, and its invocation.
func (l *Scheduler) end(r *run) {
	f := r.rev.flow
	f.runs--
	l.forgetInvocation(r.in)
	l.forget(f)
}

// launch starts a run, unless memory is still coming and only our order brings
// it: a real device faults pages in by itself, a simulated one cannot. Nor does
// a run begin while its slot is another's, whose logs are being read.
func (l *Scheduler) launch(r *run) {
	b := r.container
	if b.move.brings() && !l.cfg.Faults || b.inside >= b.width {
		b.blocked = append(b.blocked, r)
		return
	}
	r.begun, r.launched, r.transfer = true, l.now, b.move.serves
	r.kind = r.actualStart()
	b.evicted = false // what is out comes in with it
	b.inside++
	b.dev.enter(l.now, r)
	l.order(Order{
		Do: Start, Invocation: r.in.id, Container: b.id, Device: b.dev.Index, Flow: r.rev.flow.id,
		Start: r.kind, Rested: r.first, Need: r.need, Memory: r.memory(),
		Waited: r.waited, Charged: r.charged, Transfer: r.transfer,
	})
}

// release has runs that wait in a container for memory or for a slot try again.
func (l *Scheduler) release(b *container) {
	l.starting = append(l.starting, b.blocked...)
	b.blocked = b.blocked[:0]
}

// requeue returns a run that was granted and not launched to the head of its
// queue, as if it had never been granted.
func (l *Scheduler) requeue(r *run) {
	b, f := r.container, r.rev.flow
	l.collectMoves(b.dev)
	if slices.Contains(b.waiting, r) {
		b.waiting = without(b.waiting, r)
		b.dev.ledger.Cancel(l.now, b.name)
	} else {
		b.blocked, l.starting = without(b.blocked, r), without(l.starting, r)
		b.dev.ledger.Release(l.now, b.name)
	}
	l.policy.Undo(l.now, r.in.id)
	r.in.run = nil
	l.enqueue(f, r.in)
	l.startDeviceTimeout(r.in)
	b.dev.inFlight--
	f.runs--
	l.leave(r, r.kind.Warm())
}

// requeueAll does so with several runs, the youngest first.
func (l *Scheduler) requeueAll(runs []*run) {
	slices.SortFunc(runs, func(a, b *run) int {
		return cmp.Compare(b.in.seq, a.in.seq)
	})
	for _, r := range runs {
		l.requeue(r)
	}
}

// answered follows a run that has its answer and whose container stays.
func (l *Scheduler) answered(r *run) {
	if !r.answered {
		r.answered = true
		l.touch(r.rev.flow)
	}
}

// over takes a run's token back. Its container stays busy with it.
func (l *Scheduler) over(r *run, e Event) {
	if r.over {
		return
	}
	r.over = true
	b := r.container
	b.dev.leave(l.now, r)
	b.dev.inFlight--
	if e.Unused {
		l.policy.Abandon(l.now, r.in.id)
	} else {
		l.serve(r, e)
	}
	if b.move.serves != 0 && b.move.arrived {
		b.move.serves = 0 // it served this run, and not those after it
	}
	b.dev.ledger.Release(l.now, b.name)
	if !e.Keep {
		l.fail(b)
	}
}

// serve charges a run for what it used, and learns from it. Its service is the
// time in which the token was held less the making of its container.
func (l *Scheduler) serve(r *run, e Event) {
	granted := l.now - r.granted
	setup := min(max(e.Setup, 0), granted)
	f, b := r.rev.flow, r.container
	if !r.kind.Warm() && setup > 0 {
		f.demand.Started(setup)
	}
	l.policy.Done(l.now, r.in.id, sched.Usage{Service: granted - setup, Setup: setup})
	l.order(Order{
		Do: Served, Invocation: r.in.id, Container: b.id, Device: b.dev.Index, Flow: f.id,
		Service: granted - setup, Setup: setup, Memory: r.memory(),
	})
	if r.peak >= 0 && r.rev == f.newest() {
		r.rev.measured.Add(r.peak)
	}
	if e.Keep && r.kind == sched.GPUWarm && r.transfer == 0 && e.Ran > 0 {
		if k, ok := r.company(l.now); ok {
			b.dev.tokens.Learn(f.name, k, e.Ran)
			l.applyTokens(b.dev)
		}
	}
}

// left takes a run out of its container, and its token back if that is not done. A run
// that waits for its slot may begin.
func (l *Scheduler) left(r *run, e Event) {
	l.over(r, e)
	b := r.container
	l.leave(r, e.Keep)
	l.end(r)
	l.release(b)
}
