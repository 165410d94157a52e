package scheduler

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// pendingMove is the newest order to move a container's memory.
type pendingMove struct {
	kind       gpu.OrderKind
	epoch      uint64
	open       bool          // its acknowledgement is awaited
	began      time.Duration // when it was first given
	asked      int           // how often it was given since it last got on
	bytes      int64         // to be moved
	progressed int64         // resident when it last got on
	// serves is the epoch of the prefetch that the next run of the container, or those
	// in it now, have to thank for their memory; 0 for none. It has arrived when
	// it is over.
	serves  uint64
	arrived bool
	moved   int64 // bytes, when it had
}

// brings tells whether memory is on its way to the device.
func (e *pendingMove) brings() bool { return e.open && e.kind == gpu.Prefetch }

// leaves tells whether memory is on its way off the device.
func (e *pendingMove) leaves() bool { return e.open && e.kind == gpu.Evict }

// progress takes what is resident while the order is carried out. A part of it
// that was done is as good as an answer, but a small part is not: no container
// keeps the device by moving a page now and then.
func (e *pendingMove) progress(resident int64) {
	const parts = 8
	done := resident - e.progressed
	if e.kind == gpu.Evict {
		done = -done
	}
	if e.open && done > 0 && done >= e.bytes/parts {
		e.asked, e.progressed = 1, resident
	}
}

// cancelMove ends an order whose answer is not awaited any more.
func (l *Scheduler) cancelMove(b *container) {
	if !b.move.open {
		return
	}
	b.move.open = false
	l.order(Order{Do: CancelMove, Container: b.id, Device: b.dev.Index, Flow: b.rev.flow.id, Move: b.move.kind, Epoch: b.move.epoch})
}

// orderMoves hands out a ledger's orders and takes what stands.
func (l *Scheduler) orderMoves(dev *device) {
	for l.collectMoves(dev); len(dev.orders) > 0; l.collectMoves(dev) {
		o := dev.orders[0]
		dev.orders = dev.orders[:copy(dev.orders, dev.orders[1:])]
		if b := l.byName[o.Container]; b != nil && !b.removing && dev.lost == "" {
			l.orderMove(b, o)
		}
	}
}

// collectMoves reads what a ledger has to say: orders are kept for obey, runs whose
// reservations stand now are to be launched.
func (l *Scheduler) collectMoves(dev *device) {
	orders, standing := dev.ledger.Ready()
	dev.orders = append(dev.orders, orders...)
	for _, name := range standing {
		b := l.byName[name]
		l.setDirty(b)
		r := b.waiting[0]
		b.waiting = b.waiting[:copy(b.waiting, b.waiting[1:])]
		l.starting = append(l.starting, r)
	}
}

// maxAsked is how often an order is given before its container counts as one that
// will not answer.
const maxAsked = 4

// orderMove has the outside carry out an order, for as long as the next one has not
// come.
func (l *Scheduler) orderMove(b *container, o gpu.Order) {
	e := &b.move
	resident, footprint := b.dev.ledger.Residency(b.name)
	if e.epoch != o.Epoch {
		*e = pendingMove{kind: o.Kind, epoch: o.Epoch, began: l.now, bytes: o.Bytes, progressed: resident}
		if o.Kind == gpu.Prefetch {
			e.serves = o.Epoch
		} else {
			b.evicted = true
		}
	}
	if e.asked == maxAsked && l.giveUp(b) {
		return
	}
	e.open = true
	e.asked = min(e.asked+1, maxAsked)
	l.touch(b.rev.flow)
	l.order(Order{
		Do: Move, Container: b.id, Device: b.dev.Index, Flow: b.rev.flow.id,
		Move: o.Kind, Epoch: o.Epoch, Bytes: o.Bytes, Again: o.Again, Footprint: footprint,
	})
}

// giveUp disposes of a container that does not answer about its memory: its end frees
// the memory for sure. What had been granted to it runs elsewhere. False while
// a run is in it, which would be lost.
func (l *Scheduler) giveUp(b *container) bool {
	if b.inside > 0 {
		return false
	}
	l.order(Order{Do: Unresponsive, Container: b.id, Device: b.dev.Index, Flow: b.rev.flow.id, Move: b.move.kind, Epoch: b.move.epoch})
	l.fail(b)
	l.requeueAll(b.unlaunched(nil))
	if !b.removing {
		l.remove(b)
	}
	return true
}

// moved takes the end of the work on an order. Without an answer the order
// stays open: the ledger gives it again.
func (l *Scheduler) moved(b *container, e Event) {
	if !e.OK || !b.dev.ledger.Moved(l.now, b.name, e.Epoch) {
		return
	}
	b.move.open, b.move.arrived, b.move.moved = false, true, e.Bytes
	if b.move.kind == gpu.Prefetch {
		b.evicted = false
	}
	if e.Bytes > 0 && b.move.asked == 1 && b.dev.speed.learn(e.Bytes, l.now-b.move.began) {
		for _, other := range b.dev.containers {
			l.touch(other.rev.flow)
		}
	}
	l.touch(b.rev.flow)
	l.release(b)
}

// memoryReported takes what a process of a container says it holds.
func (l *Scheduler) memoryReported(b *container, e Event) {
	dev := b.dev
	if e.Exited {
		dev.ledger.Exited(l.now, b.name, e.PID)
	} else if dev.ledger.Report(l.now, b.name, e.PID, b.charged(e.Usage)) != nil {
		return
	}
	b.reported = true
	resident, _ := dev.ledger.Residency(b.name)
	b.move.progress(resident)
	b.rev.flow.resident += resident - b.resident
	b.resident = resident
	if !b.evicted {
		b.whole = resident
	}
	footprint := l.footprint(b)
	for _, r := range b.runs {
		r.peak = max(r.peak, footprint)
	}
	l.touch(b.rev.flow)
}

// charged is how a usage is accounted. What others found of a container whose memory
// is not seen cannot be moved: it is all overhead.
func (b *container) charged(u gpu.Usage) gpu.Usage {
	if !b.rev.noShim || u.Allocated < 0 || u.Resident < 0 || u.Context < 0 {
		return u
	}
	all := b.dev.MemoryBytes
	return gpu.Usage{Context: min(u.Context, all) + min(max(u.Allocated, u.Resident), all)}
}

// follow lets memory follow the flows: an active flow's idle containers are brought
// in ahead where memory is free, those of a throttled or inactive one may be
// moved out.
func (l *Scheduler) follow() {
	l.changes = l.policy.Changes(l.changes[:0])
	for _, c := range l.changes {
		if c.Flow.Function == "" {
			l.followNamespace(c)
			continue
		}
		f := l.flows[c.Flow]
		if f == nil {
			continue
		}
		l.followFlow(f, c.To)
		if c.To == sched.Inactive {
			l.forget(f)
		}
	}
}

// followNamespace takes a change of all backlogged flows of a namespace.
func (l *Scheduler) followNamespace(c sched.Change) {
	ns := l.namespaces[c.Flow.Namespace]
	if ns == nil || l.cfg.SwapEachRun {
		return // everything goes after its run, whatever its flow does
	}
	if l.setFlag(l.namespaceLimit(c.Flow.Namespace), &ns.evictFlag, c.To) {
		return
	}
	for _, f := range ns.withContainers {
		if f.queue.Len() > 0 {
			l.followFlow(f, c.To)
		}
	}
}

func (l *Scheduler) followFlow(f *flow, to sched.State) {
	if l.cfg.SwapEachRun {
		return // everything goes after its run, whatever its flow does
	}
	if l.setFlag(l.namespaceLimit(f.id.Namespace), &f.evictFlag, to) {
		return
	}
	for _, rev := range f.revs {
		for i := len(rev.containers) - 1; i >= 0; i-- {
			b := rev.containers[i]
			if b.idle == nil {
				continue
			}
			stays := to == sched.Active && l.withinLimit(b)
			b.dev.ledger.SetEvictable(l.now, b.name, !stays)
			if stays && l.cfg.PrefetchActive {
				b.dev.ledger.Prefetch(l.now, b.name, false)
			}
		}
	}
}

// setFlag flags all containers that follow a flag in one step, where that is all that
// is to be done. It is false where memory is to be moved, or might be: then each
// container is treated by itself.
func (l *Scheduler) setFlag(most int64, m *gpu.EvictFlag, to sched.State) bool {
	if l.cfg.Headroom > 0 || most > 0 || to == sched.Active && m.Away() > 0 {
		return false
	}
	l.evictFlags.Set(m, to != sched.Active)
	return true
}

// prefetchNext brings in the memory of the flow whose turn is next, during the
// current runs.
func (l *Scheduler) prefetchNext() {
	if !l.cfg.PrefetchNext {
		return
	}
	id, index, ok := l.policy.Likely(l.now)
	f := l.flows[id]
	if !ok || f == nil {
		return
	}
	dev, rev := l.devices[index], f.next()
	dev.pool.Idle(rev, func(name string) bool {
		if l.withinLimit(l.byName[name]) {
			dev.ledger.Prefetch(l.now, name, true)
		}
		return false
	})
}

// linkSpeed is how fast a device's memory was seen to move.
type linkSpeed struct {
	link    gpu.Link
	seen    float64 // bytes per second, smoothed
	applied float64 // what time answers by
}

// leastMeasured is a move that says something about the link: a smaller one is
// mostly overhead.
const leastMeasured = 64 << 20

// learn takes a move; true when the answer changes by more than a little.
func (p *linkSpeed) learn(bytes int64, took time.Duration) bool {
	if bytes < leastMeasured || took <= 0 {
		return false
	}
	const weight, little = 0.2, 0.1
	speed := float64(bytes) / took.Seconds()
	if p.seen == 0 {
		p.seen = speed
	}
	p.seen += weight * (speed - p.seen)
	if p.seen < p.applied*(1+little) && p.seen > p.applied*(1-little) {
		return false
	}
	p.applied = p.seen
	return true
}

// time is how long a run waits for so many bytes.
func (p *linkSpeed) time(bytes int64) time.Duration {
	link := p.link
	link.BytesPerSecond = p.applied
	return link.Exposed(link.Transfer(bytes))
}
