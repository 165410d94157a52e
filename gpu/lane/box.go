package lane

import (
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// box is one container of a device.
type box struct {
	id      Box
	name    string // in pools and ledgers; in the order of the ids
	dev     *device
	rev     *revision
	hostMB  int
	width   int    // runs that it takes at once
	runs    []*run // granted there, in this order, and not left
	waiting []*run // of them, whose reservation does not stand yet
	held    []*run // of them, whose reservation stands and whose memory or place is coming
	inside  int    // of them, begun
	made    bool
	heard   bool // a process has said what it holds
	failed  bool // takes no more runs
	doomed  bool // being removed
	errand  errand
	stirred int // its place in the lane's list, from 1; 0: not there

	resident int64
	// whole is what was resident when nothing had been ordered out since the last
	// run or since it was brought back; 0 is not known. out: something was.
	whole  int64
	out    bool
	since  time.Duration // nothing runs in it, while it is listed as idle
	listed bool
	older  *box
	newer  *box
}

// idleList lists the boxes in which nothing runs, the longest idle first.
type idleList struct{ oldest, newest *box }

func (g *idleList) push(b *box) {
	b.listed, b.older, b.newer = true, g.newest, nil
	if g.newest != nil {
		g.newest.newer = b
	} else {
		g.oldest = b
	}
	g.newest = b
}

func (g *idleList) remove(b *box) {
	if !b.listed {
		return
	}
	if b.older != nil {
		b.older.newer = b.newer
	} else {
		g.oldest = b.newer
	}
	if b.newer != nil {
		b.newer.older = b.older
	} else {
		g.newest = b.older
	}
	b.listed, b.older, b.newer = false, nil, nil
}

// stale is when an idle box goes.
func (l *Lane) stale(b *box) time.Duration {
	if l.cfg.IdleTimeout <= 0 {
		return 1<<63 - 1
	}
	return b.since + l.cfg.IdleTimeout
}

// newBox takes a place for a box of a revision.
func (l *Lane) newBox(dev *device, rev *revision, item uint64) *box {
	l.made++
	b := l.blank()
	b.id, b.name, b.dev, b.rev, b.hostMB, b.width = l.made, l.name(), dev, rev, rev.hostMB, rev.width
	l.boxes[b.id], l.named[b.name] = b, b
	dev.boxes = append(dev.boxes, b)
	l.enrol(rev, b)
	dev.pool.Add(l.now, b.name, rev)
	if l.limited {
		l.host.Free -= b.hostMB
	}
	l.order(Order{Do: Make, Item: item, Box: b.id, Device: dev.Index, Flow: rev.flow.id, HostMB: b.hostMB})
	return b
}

// shut lets a box take no more runs; it goes when the last has left.
func (l *Lane) shut(b *box) {
	if b.failed || b.doomed {
		return
	}
	b.failed = true
	b.dev.pool.Limit(b.name, 0)
	l.touch(b.rev.flow)
}

// warmed says that a box is initialised and takes more than its first run.
func (l *Lane) warmed(b *box) {
	if b.failed || b.doomed || b.width == 1 {
		return
	}
	b.dev.pool.Limit(b.name, b.width)
	l.touch(b.rev.flow)
}

// rests tells whether every run in a box has answered.
func (b *box) rests() bool {
	return !slices.ContainsFunc(b.runs, func(r *run) bool { return !r.closing })
}

// unlaunched appends a box's runs that have not begun.
func (b *box) unlaunched(buf []*run) []*run {
	for _, r := range b.runs {
		if !r.begun {
			buf = append(buf, r)
		}
	}
	return buf
}

// retire gives a box back to its pool from one run, or up.
func (l *Lane) retire(r *run, keep bool) {
	b := r.box
	b.runs = without(b.runs, r)
	l.stir(b)
	if r.begun {
		b.inside--
	}
	if !keep {
		l.shut(b)
	}
	fits := l.vacate(r)
	switch {
	case len(b.runs) > 0:
	case b.failed || !fits:
		l.dispose(b)
	default:
		b.since = l.now
		l.idle.push(b)
		marked := l.cfg.SwapEachRun || l.policy.State(b.rev.flow.id) != sched.Active
		b.dev.ledger.SetEvictable(l.now, b.name, marked)
		b.dev.ledger.Follow(b.name, &b.rev.flow.mark)
	}
	l.touch(b.rev.flow)
}

// dispose gives a box up in which nothing runs: it is removed, and its memory,
// on the device and on the host, is free when that is done.
func (l *Lane) dispose(b *box) {
	b.doomed = true
	b.errand.open = false
	l.idle.remove(b)
	b.dev.ledger.Part(b.name)
	b.dev.pool.Remove(b.name)
	b.dev.ledger.Leave(l.now, b.name)
	l.leaving += b.hostMB
	l.touch(b.rev.flow)
	l.order(Order{Do: Remove, Box: b.id, Device: b.dev.Index, Flow: b.rev.flow.id})
}

// died takes the news that a box's container has ended by itself.
func (l *Lane) died(b *box) {
	l.shut(b) // a run that is in it gives it up
	if b.doomed || b.inside > 0 {
		return
	}
	l.takeAllBack(b.unlaunched(l.back[:0]))
	if len(b.runs) == 0 && !b.doomed {
		l.dispose(b)
	}
}

// gone frees what a removed box held.
func (l *Lane) gone(b *box) {
	if !b.doomed {
		return
	}
	f := b.rev.flow
	l.calm(b)
	delete(l.boxes, b.id)
	delete(l.named, b.name)
	b.dev.boxes = slices.DeleteFunc(b.dev.boxes, func(other *box) bool { return other == b })
	l.strike(b.rev, b)
	b.dev.ledger.Gone(l.now, b.name)
	l.leaving -= b.hostMB
	f.resident -= b.resident
	l.prune(b.rev)
	l.forget(f)
	l.scrap(b)
}

// grown takes what a box takes of the host now.
func (l *Lane) grown(b *box, e Event) {
	more := int(min(e.Bytes, maxBytes)) - b.hostMB
	if more <= 0 {
		return
	}
	b.hostMB += more
	if b.doomed {
		l.leaving += more
	}
}

func without(runs []*run, r *run) []*run {
	return slices.DeleteFunc(runs, func(other *run) bool { return other == r })
}
