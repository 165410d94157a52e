package gpu

import (
	"fmt"
	"time"
)

// pump grants what can stand, strictly in the order of asking so that a large
// reservation is not starved by small ones, and makes available for the first that
// cannot. Called at the end of every event.
func (l *Ledger) pump(now time.Duration) {
	l.counted = false
	granted := 0
	for _, w := range l.waiting {
		if !l.fits(w.a, w.need) {
			break
		}
		l.grant(now, w.a, w.need)
		l.standing = append(l.standing, w.a.id)
		granted++
	}
	if granted > 0 {
		l.waiting = append(l.waiting[:0], l.waiting[granted:]...)
	}
	switch {
	case len(l.waiting) > 0:
		head := l.waiting[0]
		l.evict(now, l.extra(head.a, head.need)-l.Free(), head.a, false)
	case l.over:
		l.evict(now, -l.Free(), nil, false)
	default:
		l.evict(now, l.cfg.Headroom-l.Free(), nil, true)
	}
}

// evict orders memory out until lack bytes are free or on their way out: least
// recently used first among what is flagged evictable, and, unless flaggedOnly,
// then among the memory of idle containers of active flows. What runs is never
// touched, nor is spare; what waits to run only when nothing else can help.
func (l *Ledger) evict(now time.Duration, lack int64, spare *memory, flaggedOnly bool) {
	if lack <= 0 {
		return
	}
	for _, a := range l.containers {
		switch {
		case a.removing:
			lack -= a.charge()
		case a.move == evicting:
			lack -= a.movable()
		}
	}
	for lack > 0 {
		v := l.victim(spare, flaggedOnly)
		if v == nil && !flaggedOnly && !l.Running() {
			v = l.later(spare)
		}
		if v == nil {
			return
		}
		lack -= v.movable()
		l.order(now, v, evicting)
	}
}

// victim picks the next account to move out. Accounts are kept in order of
// opening, so equal times resolve to the container opened first.
func (l *Ledger) victim(spare *memory, flaggedOnly bool) *memory {
	var best *memory
	for _, a := range l.containers {
		if a == spare || a.removing || !a.idle() || a.move == evicting || a.movable() <= 0 || (flaggedOnly && !a.evictFlag.On()) {
			continue
		}
		if best == nil || before(a, best) {
			best = a
		}
	}
	return best
}

// later picks the youngest waiting reservation's container whose memory can
// move: when nothing runs, no end of a run will make available for the oldest, and
// those that wait behind it must not keep it from going first.
func (l *Ledger) later(spare *memory) *memory {
	for i := len(l.waiting) - 1; i > 0; i-- {
		if a := l.waiting[i].a; a != spare && a.move != evicting && a.movable() > 0 {
			return a
		}
	}
	return nil
}

// Running reports whether any reservation stands.
func (l *Ledger) Running() bool {
	for _, a := range l.containers {
		if a.runs > 0 {
			return true
		}
	}
	return false
}

func before(a, b *memory) bool {
	if flagged := a.evictFlag.On(); flagged != b.evictFlag.On() {
		return flagged
	}
	return a.lastUsed < b.lastUsed
}

// Totals is what a ledger has charged, in bytes.
type Totals struct {
	Resident  int64 // data of containers on the device
	Allocated int64 // data of containers, on the device or on the host
	Reserved  int64 // promised to runs and prefetches beyond that
	Context   int64 // overhead of containers
	Foreign   int64 // of no known container
}

// Totals sums the ledger's lines.
func (l *Ledger) Totals() Totals {
	t := Totals{Foreign: l.foreign}
	for _, a := range l.containers {
		t.Resident += a.resident
		t.Allocated += max(a.resident, a.footprint)
		t.Context += a.context()
		t.Reserved += a.charge() - a.context() - a.resident
	}
	return t
}

// Quiet reports whether nothing runs and nothing moves: what the device shows
// as used is then what its containers hold, and what others do.
func (l *Ledger) Quiet() bool {
	for _, a := range l.containers {
		if a.runs > 0 || a.move != settled {
			return false
		}
	}
	return true
}

// Check returns an error that names the first broken invariant. Tests call it
// after every event.
func (l *Ledger) Check() error {
	sum := l.foreign
	firm, moving := int64(0), 0
	for _, a := range l.containers {
		sum += a.charge()
		firm += a.firm()
		if a.move != settled {
			moving++
		}
		if err := a.check(); err != nil {
			return err
		}
	}
	switch counted, available := l.counted, l.available; {
	case counted && available != l.availableWith(nil):
		return fmt.Errorf("available for %d bytes, counted %d", l.availableWith(nil), available)
	case firm != l.firm || moving != l.moving:
		return fmt.Errorf("%d cannot be moved, counted %d; %d move, counted %d", firm, l.firm, moving, l.moving)
	case sum != l.used:
		return fmt.Errorf("used %d, sum of charges %d", l.used, sum)
	case l.used > l.cfg.Capacity && !l.over:
		return fmt.Errorf("granted %d on a device of %d", l.used, l.cfg.Capacity)
	case l.over && l.used <= l.cfg.Capacity:
		return fmt.Errorf("taken as over at %d of %d", l.used, l.cfg.Capacity)
	case len(l.containers) != len(l.byID):
		return fmt.Errorf("%d accounts, %d ids", len(l.containers), len(l.byID))
	case len(l.waiting) > 0 && l.fits(l.waiting[0].a, l.waiting[0].need):
		return fmt.Errorf("the reservation of %s fits and waits", l.waiting[0].a.id)
	}
	return nil
}

func (a *memory) check() error {
	switch {
	case a.runs < 0 || a.claims < a.runs:
		return fmt.Errorf("%s: %d runs, %d claims", a.id, a.runs, a.claims)
	case a.runs == 0 && a.want != 0:
		return fmt.Errorf("%s: %d bytes promised to no run", a.id, a.want)
	case a.runs > 0 && a.move == evicting:
		return fmt.Errorf("%s: evicted while it runs", a.id)
	case a.coming > 0 && a.move == settled && !a.unsure:
		return fmt.Errorf("%s: %d bytes coming with no order", a.id, a.coming)
	case a.movable() < 0:
		return fmt.Errorf("%s: %d bytes movable", a.id, a.movable())
	}
	return nil
}
