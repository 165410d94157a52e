package lane

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// errand is the newest order to move a box's memory.
type errand struct {
	kind  gpu.OrderKind
	epoch uint64
	open  bool          // its acknowledgement is awaited
	began time.Duration // when it was first given
	asked int           // how often it was given since it last got on
	bytes int64         // to be moved
	mark  int64         // resident when it last got on
	// serves is the epoch of the prefetch that the next run of the box, or those
	// in it now, have to thank for their memory; 0 for none. It has arrived when
	// it is over.
	serves  uint64
	arrived bool
	moved   int64 // bytes, when it had
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

// void ends the work on an order that nobody awaits any more.
func (l *Lane) void(b *box) {
	if !b.errand.open {
		return
	}
	b.errand.open = false
	l.order(Order{Do: Void, Box: b.id, Device: b.dev.Index, Flow: b.rev.flow.id, Move: b.errand.kind, Epoch: b.errand.epoch})
}

// obey hands out a ledger's orders and takes what stands.
func (l *Lane) obey(dev *device) {
	for l.hear(dev); len(dev.orders) > 0; l.hear(dev) {
		o := dev.orders[0]
		dev.orders = dev.orders[:copy(dev.orders, dev.orders[1:])]
		if b := l.named[o.Container]; b != nil && !b.doomed && dev.lost == "" {
			l.move(b, o)
		}
	}
}

// hear reads what a ledger has to say: orders are kept for obey, runs whose
// reservations stand now are to be launched.
func (l *Lane) hear(dev *device) {
	orders, standing := dev.ledger.Ready()
	dev.orders = append(dev.orders, orders...)
	for _, name := range standing {
		b := l.named[name]
		l.stir(b)
		r := b.waiting[0]
		b.waiting = b.waiting[:copy(b.waiting, b.waiting[1:])]
		l.starting = append(l.starting, r)
	}
}

// maxAsked is how often an order is given before its box counts as one that
// will not answer.
const maxAsked = 4

// move has the outside carry out an order, for as long as the next one has not
// come.
func (l *Lane) move(b *box, o gpu.Order) {
	e := &b.errand
	resident, footprint := b.dev.ledger.Residency(b.name)
	if e.epoch != o.Epoch {
		*e = errand{kind: o.Kind, epoch: o.Epoch, began: l.now, bytes: o.Bytes, mark: resident}
		if o.Kind == gpu.Prefetch {
			e.serves = o.Epoch
		} else {
			b.out = true
		}
	}
	if e.asked == maxAsked && l.giveUp(b) {
		return
	}
	e.open = true
	e.asked = min(e.asked+1, maxAsked)
	l.touch(b.rev.flow)
	l.order(Order{
		Do: Move, Box: b.id, Device: b.dev.Index, Flow: b.rev.flow.id,
		Move: o.Kind, Epoch: o.Epoch, Bytes: o.Bytes, Again: o.Again, Footprint: footprint,
	})
}

// giveUp disposes of a box that does not answer about its memory: its end frees
// the memory for sure. What had been granted to it runs elsewhere. False while
// a run is in it, which would be lost.
func (l *Lane) giveUp(b *box) bool {
	if b.inside > 0 {
		return false
	}
	l.order(Order{Do: Mute, Box: b.id, Device: b.dev.Index, Flow: b.rev.flow.id, Move: b.errand.kind, Epoch: b.errand.epoch})
	l.shut(b)
	l.takeAllBack(b.unlaunched(l.back[:0]))
	if !b.doomed {
		l.dispose(b)
	}
	return true
}

// moved takes the end of the work on an order. Without an answer the order
// stays open: the ledger gives it again.
func (l *Lane) moved(b *box, e Event) {
	if !e.OK || !b.dev.ledger.Moved(l.now, b.name, e.Epoch) {
		return
	}
	b.errand.open, b.errand.arrived, b.errand.moved = false, true, e.Bytes
	if b.errand.kind == gpu.Prefetch {
		b.out = false
	}
	if e.Bytes > 0 && b.errand.asked == 1 && b.dev.pace.learn(e.Bytes, l.now-b.errand.began) {
		for _, other := range b.dev.boxes {
			l.touch(other.rev.flow)
		}
	}
	l.touch(b.rev.flow)
	l.release(b)
}

// heard takes what a process of a box says it holds.
func (l *Lane) heard(b *box, e Event) {
	dev := b.dev
	if e.Exited {
		dev.ledger.Exited(l.now, b.name, e.PID)
	} else if dev.ledger.Report(l.now, b.name, e.PID, b.charged(e.Usage)) != nil {
		return
	}
	b.heard = true
	resident, _ := dev.ledger.Residency(b.name)
	b.errand.progress(resident)
	b.rev.flow.resident += resident - b.resident
	b.resident = resident
	if !b.out {
		b.whole = resident
	}
	footprint := l.footprint(b)
	for _, r := range b.runs {
		r.peak = max(r.peak, footprint)
	}
	l.touch(b.rev.flow)
}

// charged is how a usage is accounted. What others found of a box whose memory
// is not seen cannot be moved: it is all overhead.
func (b *box) charged(u gpu.Usage) gpu.Usage {
	if !b.rev.unseen || u.Allocated < 0 || u.Resident < 0 || u.Context < 0 {
		return u
	}
	all := b.dev.MemoryBytes
	return gpu.Usage{Context: min(u.Context, all) + min(max(u.Allocated, u.Resident), all)}
}

// pace is how fast a device's memory was seen to move.
type pace struct {
	link gpu.Link
	seen float64 // bytes per second, smoothed
	told float64 // what time answers by
}

// paceLeast is a move that says something about the link: a smaller one is
// mostly talk.
const paceLeast = 64 << 20

// learn takes a move; true when the answer changes by more than a little.
func (p *pace) learn(bytes int64, took time.Duration) bool {
	if bytes < paceLeast || took <= 0 {
		return false
	}
	const weight, little = 0.2, 0.1
	speed := float64(bytes) / took.Seconds()
	if p.seen == 0 {
		p.seen = speed
	}
	p.seen += weight * (speed - p.seen)
	if p.seen < p.told*(1+little) && p.seen > p.told*(1-little) {
		return false
	}
	p.told = p.seen
	return true
}

// time is how long a run waits for so many bytes.
func (p *pace) time(bytes int64) time.Duration {
	link := p.link
	link.BytesPerSecond = p.told
	return link.Exposed(link.Transfer(bytes))
}
