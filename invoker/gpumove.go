package invoker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// errand is the newest order to move a container's memory.
type errand struct {
	kind  gpu.OrderKind
	epoch uint64
	open  bool               // its acknowledgement is awaited
	asked int                // how often it was given since it last got on
	bytes int64              // to be moved
	mark  int64              // resident when it last got on
	end   context.CancelFunc // ends the mover's work on it
	// transfer is the prefetch that the next run of the container, or those in
	// it now, have to thank for their memory.
	transfer *transfer
}

// transfer is a prefetch as the runs see it that it serves.
type transfer struct {
	began time.Duration
	took  atomic.Int64 // 0 while it is under way
}

// time is how long a transfer took, or has taken until now. A nil one took
// none.
func (t *transfer) time(now time.Duration) time.Duration {
	if t == nil {
		return 0
	}
	if took := t.took.Load(); took > 0 {
		return time.Duration(took)
	}
	return max(0, now-t.began)
}

// stop ends the mover's work on the order: it is void.
func (e *errand) stop() {
	if e.end != nil {
		e.end()
	}
	e.open = false
}

// stopUnless ends the work on an order that the ledger does not await any
// more, as when a run cancelled an eviction.
func (e *errand) stopUnless(awaited bool) {
	if e.open && !awaited {
		e.stop()
	}
}

// brings tells whether memory is on its way to the device.
func (e *errand) brings() bool { return e.open && e.kind == gpu.Prefetch }

// leaves tells whether memory is on its way off the device.
func (e *errand) leaves() bool { return e.open && e.kind == gpu.Evict }

// progress takes what is resident while the order is carried out. A part of it
// that was done is as good as an answer, but a small part is not: nobody shall
// keep the device by moving a page now and then.
func (e *errand) progress(resident int64) {
	const parts = 8
	done := resident - e.mark
	if e.kind == gpu.Evict {
		done = -done
	}
	if e.open && done > 0 && done >= e.bytes/parts {
		e.asked, e.mark = 1, resident
	}
}

// served takes the end of a run: a transfer that has ended served it, and not
// those after it.
func (e *errand) served() {
	if e.transfer != nil && e.transfer.took.Load() > 0 {
		e.transfer = nil
	}
}

// obey hands out a ledger's orders and takes what stands.
func (l *gpuLane) obey(now time.Duration, dev *device) {
	for l.hear(dev); len(dev.orders) > 0; l.hear(dev) {
		o := dev.orders[0]
		dev.orders = dev.orders[1:]
		if b := l.boxes[o.Container]; b != nil && !b.gpu.doomed && dev.lost == "" {
			l.order(now, dev, b, o)
		}
	}
}

// hear reads what a ledger has to say: orders are kept for obey, runs whose
// reservations stand now are to be launched.
func (l *gpuLane) hear(dev *device) {
	orders, standing := dev.ledger.Ready()
	dev.orders = append(dev.orders, orders...)
	for _, name := range standing {
		b := l.boxes[name]
		r := b.gpu.waiting[0]
		b.gpu.waiting = b.gpu.waiting[1:]
		l.starting = append(l.starting, r)
	}
}

// maxAsked is how often an order is given before its container counts as one
// that will not answer.
const maxAsked = 4

// order has the mover carry out an order, for as long as the next one has not
// come.
func (l *gpuLane) order(now time.Duration, dev *device, b *box, o gpu.Order) {
	e := &b.gpu.errand
	e.stop()
	resident, footprint := dev.ledger.Residency(b.name)
	if e.epoch != o.Epoch {
		*e = errand{kind: o.Kind, epoch: o.Epoch, bytes: o.Bytes, mark: resident}
		if o.Kind == gpu.Prefetch {
			e.transfer = &transfer{began: now}
		}
	}
	if e.asked == maxAsked && l.giveUp(now, b) {
		return
	}
	e.open = true
	e.asked = min(e.asked+1, maxAsked)
	current, end := context.WithCancel(l.d.work)
	e.end = end
	l.d.goWork(func(context.Context) {
		defer end()
		bytes, err := l.mover.Move(current, o, footprint)
		l.d.post(moved{b, o, bytes, err})
	})
}

// giveUp disposes of a container that does not answer about its memory: its
// end frees the memory for sure. What had been granted to it runs elsewhere.
// False while a run is in it, which would be lost.
func (l *gpuLane) giveUp(now time.Duration, b *box) bool {
	unlaunched := b.gpu.unlaunched()
	if len(b.gpu.runs) > len(unlaunched) {
		return false
	}
	l.d.log.Warn("container does not answer about its device memory, given up",
		keyContainer, b.name, "order", b.gpu.errand.kind.String(), "asked", b.gpu.errand.asked)
	l.shut(b)
	l.takeAllBack(now, unlaunched)
	if !b.gpu.doomed {
		l.dispose(now, b)
	}
	return true
}

// moved takes the end of the mover's work on an order. Without an answer the
// order stays open: the ledger gives it again.
func (l *gpuLane) moved(now time.Duration, e moved) {
	b := e.box
	if l.boxes[b.name] != b {
		return
	}
	l.d.metrics.moved(b.gpu.flow, e.order.Kind, min(e.bytes, b.gpu.device.MemoryBytes))
	if e.err != nil || !b.gpu.device.ledger.Moved(now, b.name, e.order.Epoch) {
		return
	}
	b.gpu.errand.open = false
	if t := b.gpu.errand.transfer; t != nil {
		t.took.Store(int64(max(now-t.began, 1)))
	}
	l.policy.Touch(now, b.gpu.flow)
	l.touchMisfits(now)
	l.starting = append(l.starting, b.gpu.held...)
	b.gpu.held = nil
}

// heard takes what a process of a container says it holds.
func (l *gpuLane) heard(now time.Duration, h gpu.Held) {
	b := l.boxes[h.Container]
	if b == nil {
		return
	}
	dev := b.gpu.device
	if h.Exited {
		dev.ledger.Exited(now, b.name, h.PID)
	} else if err := dev.ledger.Report(now, b.name, h.PID, b.gpu.charged(h.Usage)); err != nil {
		l.d.log.Warn("gpu usage refused", keyContainer, b.name, "error", err)
		return
	}
	b.gpu.heard = true
	resident, _ := dev.ledger.Residency(b.name)
	b.gpu.errand.progress(resident)
	footprint := l.footprint(b)
	for _, r := range b.gpu.runs {
		r.grant.peak.Store(max(r.grant.peak.Load(), footprint))
	}
	l.showResident(b.gpu.flow)
	l.policy.Touch(now, b.gpu.flow)
	l.touchMisfits(now)
}

// charged is how a usage is accounted. What others found of a container whose
// memory is not seen cannot be moved: it is all overhead.
func (b *gpuBox) charged(u gpu.Usage) gpu.Usage {
	if !b.unseen || u.Allocated < 0 || u.Resident < 0 || u.Context < 0 {
		return u
	}
	all := b.device.MemoryBytes
	return gpu.Usage{Context: min(u.Context, all) + min(max(u.Allocated, u.Resident), all)}
}
