package lane

import "time"

// due is when an item is looked at for having waited too long.
type due struct {
	at   time.Duration
	item uint64
	own  bool // the item's own time, whatever the devices do
}

// dues is a heap of them, the earliest first. Those of items that have run
// meanwhile are dropped when their time comes.
type dues struct{ heap []due }

func (d *dues) next() (time.Duration, bool) {
	if len(d.heap) == 0 {
		return 0, false
	}
	return d.heap[0].at, true
}

func (d *dues) sooner(i, j int) bool {
	a, b := d.heap[i], d.heap[j]
	if a.at != b.at {
		return a.at < b.at
	}
	return a.item < b.item || a.item == b.item && a.own && !b.own
}

func (d *dues) push(e due) {
	d.heap = append(d.heap, e)
	for i := len(d.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !d.sooner(i, up) {
			return
		}
		d.heap[i], d.heap[up] = d.heap[up], d.heap[i]
		i = up
	}
}

func (d *dues) pop() due {
	top, last := d.heap[0], len(d.heap)-1
	d.heap[0] = d.heap[last]
	d.heap = d.heap[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if d.sooner(c, least) {
				least = c
			}
		}
		if least == i {
			return top
		}
		d.heap[i], d.heap[least] = d.heap[least], d.heap[i]
		i = least
	}
}

// awaitDue notes when an item that was queued has waited too long; 0 is never.
func (l *Lane) awaitDue(i int32, at time.Duration) {
	if at > 0 {
		l.dues.push(due{at, l.queue.at(i).id, true})
	}
	l.awaitDevice(i)
}

// awaitDevice notes when a queued item has waited too long for a lost device.
func (l *Lane) awaitDevice(i int32) {
	if l.lost > 0 && l.cfg.Patience > 0 {
		l.dues.push(due{l.patienceEnd(l.queue.at(i)), l.queue.at(i).id, false})
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
	for f := l.backlog.first; f != nil; f = f.after {
		for i := f.head; i != none; i = l.queue.at(i).next {
			l.awaitDevice(i)
		}
	}
}

// impatient refuses those that have waited too long.
func (l *Lane) impatient() {
	for len(l.dues.heap) > 0 && l.dues.heap[0].at <= l.now {
		d := l.dues.pop()
		i, ok := l.queue.byID[d.item]
		if !ok || l.queue.at(i).run != nil && l.queue.at(i).run.begun {
			continue
		}
		it := l.queue.at(i)
		switch {
		case d.own:
			l.refuseItem(it.id, Overdue)
		case l.lost == 0 || l.patienceEnd(it) > l.now: // or there is a later one
		case l.stranded(it.rev):
			l.refuseItem(it.id, NoDevice)
		default: // it can be served as far as is known now
			l.dues.push(due{l.now + l.cfg.Patience, it.id, false})
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
