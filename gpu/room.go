package gpu

import (
	"fmt"
	"time"
)

// pump grants what can stand, strictly in the order of asking so that a large
// reservation is not starved by small ones, and makes room for the first that
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
// recently used first among what is marked evictable, and, unless markedOnly,
// then among the memory of idle containers of active flows. What runs is never
// touched, nor is spare; what waits to run only when nothing else can help.
func (l *Ledger) evict(now time.Duration, lack int64, spare *account, markedOnly bool) {
	if lack <= 0 {
		return
	}
	for _, a := range l.accounts {
		switch {
		case a.leaving:
			lack -= a.charge()
		case a.move == evicting:
			lack -= a.movable()
		}
	}
	for lack > 0 {
		v := l.victim(spare, markedOnly)
		if v == nil && !markedOnly && !l.Running() {
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
func (l *Ledger) victim(spare *account, markedOnly bool) *account {
	var best *account
	for _, a := range l.accounts {
		if a == spare || a.leaving || !a.idle() || a.move == evicting || a.movable() <= 0 || (markedOnly && !a.mark.On()) {
			continue
		}
		if best == nil || before(a, best) {
			best = a
		}
	}
	return best
}

// later picks the youngest waiting reservation's container whose memory can
// move: when nothing runs, no end of a run will make room for the oldest, and
// those that wait behind it must not keep it from going first.
func (l *Ledger) later(spare *account) *account {
	for i := len(l.waiting) - 1; i > 0; i-- {
		if a := l.waiting[i].a; a != spare && a.move != evicting && a.movable() > 0 {
			return a
		}
	}
	return nil
}

// Running reports whether any reservation stands.
func (l *Ledger) Running() bool {
	for _, a := range l.accounts {
		if a.runs > 0 {
			return true
		}
	}
	return false
}

func before(a, b *account) bool {
	if marked := a.mark.On(); marked != b.mark.On() {
		return marked
	}
	return a.lastUsed < b.lastUsed
}

// Evictable returns the bytes that evictions could free: those of idle
// containers that are marked, and those of all idle containers.
func (l *Ledger) Evictable() (marked, idle int64) {
	for _, a := range l.accounts {
		if !a.idle() || a.leaving {
			continue
		}
		idle += a.movable()
		if a.mark.On() {
			marked += a.movable()
		}
	}
	return marked, idle
}

// Totals is what a ledger has charged, in bytes.
type Totals struct {
	Resident int64 // data of containers on the device
	Held     int64 // data of containers, on the device or on the host
	Reserved int64 // promised to runs and prefetches beyond that
	Context  int64 // overhead of containers
	Foreign  int64 // of nobody known
}

// Totals sums the ledger's lines.
func (l *Ledger) Totals() Totals {
	t := Totals{Foreign: l.foreign}
	for _, a := range l.accounts {
		t.Resident += a.resident
		t.Held += max(a.resident, a.footprint)
		t.Context += a.context()
		t.Reserved += a.charge() - a.context() - a.resident
	}
	return t
}

// Quiet reports whether nothing runs and nothing moves: what the device shows
// as used is then what its containers hold, and what others do.
func (l *Ledger) Quiet() bool {
	for _, a := range l.accounts {
		if a.runs > 0 || a.move != settled {
			return false
		}
	}
	return true
}

// Account is one container's line in a ledger, for metrics and /status.
type Account struct {
	Container string
	Resident  int64
	Footprint int64
	Reserved  int64
	Context   int64
	Runs      int
	Evictable bool
}

// Accounts returns a copy of every line, in order of opening.
func (l *Ledger) Accounts() []Account {
	out := make([]Account, 0, len(l.accounts))
	for _, a := range l.accounts {
		out = append(out, Account{
			Container: a.id, Resident: a.resident, Footprint: a.footprint,
			Reserved: a.charge() - a.context() - a.resident, Context: a.context(),
			Runs: a.runs, Evictable: a.mark.On(),
		})
	}
	return out
}

// Check returns an error that names the first broken invariant. Tests call it
// after every event.
func (l *Ledger) Check() error {
	sum := l.foreign
	firm, moving := int64(0), 0
	for _, a := range l.accounts {
		sum += a.charge()
		firm += a.firm()
		if a.move != settled {
			moving++
		}
		if err := a.check(); err != nil {
			return err
		}
	}
	switch counted, room := l.counted, l.room; {
	case counted && room != l.roomWith(nil):
		return fmt.Errorf("room for %d bytes, counted %d", l.roomWith(nil), room)
	case firm != l.firm || moving != l.moving:
		return fmt.Errorf("%d cannot be moved, counted %d; %d move, counted %d", firm, l.firm, moving, l.moving)
	case sum != l.used:
		return fmt.Errorf("used %d, sum of charges %d", l.used, sum)
	case l.used > l.cfg.Capacity && !l.over:
		return fmt.Errorf("granted %d on a device of %d", l.used, l.cfg.Capacity)
	case l.over && l.used <= l.cfg.Capacity:
		return fmt.Errorf("taken as over at %d of %d", l.used, l.cfg.Capacity)
	case len(l.accounts) != len(l.byID):
		return fmt.Errorf("%d accounts, %d ids", len(l.accounts), len(l.byID))
	case len(l.waiting) > 0 && l.fits(l.waiting[0].a, l.waiting[0].need):
		return fmt.Errorf("the reservation of %s fits and waits", l.waiting[0].a.id)
	}
	return nil
}

func (a *account) check() error {
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
