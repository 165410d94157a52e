package lane

import (
	"slices"
	"time"
)

// due is when an item is looked at for having waited too long.
type due struct {
	at   time.Duration
	item uint64
}

func (d due) before(other due) bool {
	return d.at < other.at || d.at == other.at && d.item < other.item
}

// dues is a heap of them, the earliest first. Those of items that have run
// meanwhile are dropped when their time comes. With all devices lost there is one
// for each item that waits, so they are small.
type dues []due

func (d dues) next() (time.Duration, bool) {
	if len(d) == 0 {
		return 0, false
	}
	return d[0].at, true
}

func (d *dues) push(e due) {
	*d = append(*d, e)
	h := *d
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (d *dues) pop() due {
	h := *d
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	*d = h
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// waits says when which items have waited too long.
type waits struct {
	own    dues // each its own time, whatever the devices do
	device dues // for a device that is lost
}

func (w *waits) next() (time.Duration, bool) {
	at, some := w.own.next()
	if other, more := w.device.next(); more && (!some || other < at) {
		return other, true
	}
	return at, some
}

// pop takes the earliest. Of one item its own time comes first.
func (w *waits) pop() (d due, own bool) {
	if len(w.device) == 0 || len(w.own) > 0 && !w.device[0].before(w.own[0]) {
		return w.own.pop(), true
	}
	return w.device.pop(), false
}

// awaitDue notes when an item that was queued has waited too long; 0 is never.
func (l *Lane) awaitDue(i int32, at time.Duration) {
	if at > 0 {
		l.waits.own.push(due{at, l.queue.at(i).id})
	}
	l.awaitDevice(i)
}

// awaitDevice notes when a queued item has waited too long for a lost device.
func (l *Lane) awaitDevice(i int32) {
	if l.lost > 0 && l.cfg.Patience > 0 {
		l.waits.device.push(due{l.patienceEnd(l.queue.at(i)), l.queue.at(i).id})
	}
}

// patienceEnd is when an item has waited long enough for a device that could
// serve it.
func (l *Lane) patienceEnd(it *item) time.Duration { return max(it.at, l.shrunk) + l.cfg.Patience }

// losing notes that everybody who is queued may wait for a device from now on.
func (l *Lane) losing() {
	l.shrunk = l.now
	if l.cfg.Patience <= 0 {
		return
	}
	l.waits.device = slices.Grow(l.waits.device, l.queue.queued)
	for f := l.backlog.first; f != nil; f = f.after {
		for i := f.head; i != none; i = l.queue.at(i).next {
			l.awaitDevice(i)
		}
	}
}

// impatient refuses those that have waited too long.
func (l *Lane) impatient() {
	for {
		if at, some := l.waits.next(); !some || at > l.now {
			return
		}
		d, own := l.waits.pop()
		i, ok := l.queue.byID[d.item]
		if !ok || l.queue.at(i).run != nil && l.queue.at(i).run.begun {
			continue
		}
		it := l.queue.at(i)
		switch {
		case own:
			l.refuseItem(it.id, Overdue)
		case l.lost == 0 || l.patienceEnd(it) > l.now: // or there is a later one
		case l.stranded(it.rev):
			l.refuseItem(it.id, NoDevice)
		default: // it can be served as far as is known now
			l.waits.device.push(due{l.now + l.cfg.Patience, it.id})
		}
	}
}

// stranded tells whether no device is there that could serve a revision. What
// is too big for any is refused by whichever there is.
func (l *Lane) stranded(rev *revision) bool {
	for _, dev := range l.devices {
		n := l.need(dev, rev, nil)
		if all := n.Bytes + n.Context; dev.lost == "" && (all <= dev.MemoryBytes || all > l.largest) {
			return false
		}
	}
	return true
}
