package gpu

import (
	"slices"
	"time"
)

// pump grants the reservations that can stand, strictly in the order of asking so
// that small ones do not starve a large one, and evicts for the first that cannot.
// It is called at the end of every event.
func (l *Ledger) pump(now time.Duration) {
	l.counted = false
	for len(l.waiting) > 0 && l.fits(l.waiting[0].a, l.waiting[0].need) {
		w := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.grant(now, w.a, w.need)
		l.standing = append(l.standing, w.a.id)
	}
	switch {
	case len(l.waiting) > 0:
		head := l.waiting[0]
		l.evict(now, l.extra(head.a, head.need)-l.Free(), head.a, false)
	case l.overReported:
		l.evict(now, -l.Free(), nil, false)
	default:
		l.evict(now, l.cfg.Headroom-l.Free(), nil, true)
	}
}

// evict orders memory out until lack bytes are free or on their way out. It starts with the
// least retained memory, least recently used first. With evictableOnly it moves only memory
// that is not retained. It never evicts the memory of containers with runs, nor that of keep.
// It evicts the memory of containers with waiting reservations only if nothing else helps.
func (l *Ledger) evict(now time.Duration, lack int64, keep *memory, evictableOnly bool) {
	if lack <= 0 {
		return
	}
	for _, a := range l.containers {
		switch {
		case a.removing:
			lack -= a.freed()
		case a.move == evicting:
			lack -= a.movable()
		}
	}
	for lack > 0 {
		v := l.victim(keep, evictableOnly)
		if v == nil && !evictableOnly && !l.Running() {
			v = l.later(keep)
		}
		if v == nil {
			return
		}
		lack -= v.movable()
		l.order(now, v, evicting)
	}
}

// victim returns the container whose memory is evicted next. Among equals it is the one that
// the ledger has known longest.
func (l *Ledger) victim(keep *memory, evictableOnly bool) *memory {
	var best *memory
	for _, a := range l.containers {
		if a == keep || a.removing || !a.idle() || a.move == evicting || a.movable() <= 0 || evictableOnly && !a.hold.evictable() {
			continue
		}
		if best == nil || before(a, best) {
			best = a
		}
	}
	return best
}

// later returns the container of the youngest waiting reservation whose memory can move. If
// nothing runs, no end of a run will free memory for the oldest reservation, and the younger
// reservations must not delay it.
func (l *Ledger) later(keep *memory) *memory {
	for i := len(l.waiting) - 1; i > 0; i-- {
		if a := l.waiting[i].a; a != keep && a.move != evicting && a.movable() > 0 {
			return a
		}
	}
	return nil
}

// Running reports whether any reservation stands.
func (l *Ledger) Running() bool {
	return slices.ContainsFunc(l.containers, func(a *memory) bool { return a.runs > 0 })
}

func before(a, b *memory) bool {
	if a.hold != b.hold {
		return a.hold > b.hold
	}
	return a.lastUsed < b.lastUsed
}
