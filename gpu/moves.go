package gpu

import (
	"fmt"
	"slices"
	"time"
)

// OrderKind is what the outside shall do with a container's memory.
type OrderKind uint8

const (
	// Prefetch moves a container's memory onto the device.
	Prefetch OrderKind = iota
	// Evict moves a container's memory to the host.
	Evict
)

// String returns the word for logs.
func (k OrderKind) String() string {
	if k == Prefetch {
		return "prefetch"
	}
	return "evict"
}

// Order tells the outside to move a container's memory and to answer with
// Report for each of its processes, then Moved with the same epoch. An order
// of a newer epoch replaces every older one of its container.
type Order struct {
	Kind      OrderKind
	Container string
	Epoch     uint64
	Bytes     int64 // what the ledger expects to move
	Again     bool  // the same order as before: its acknowledgement is overdue
}

// Usage is what one process of a container says about its device memory.
type Usage struct {
	Allocated int64 // held altogether, on the device or swapped to the host
	Resident  int64 // of it, on the device
	Context   int64 // the overhead of its CUDA context
	Pinned    int64 // host memory that it has pinned; no ledger of a device counts it
}

// Ready returns what the outside must do, oldest first, and the containers
// whose waiting reservations now stand, one entry for each reservation. Both
// slices are valid until the next call of any method; what was returned is not
// returned again.
func (l *Ledger) Ready() (orders []Order, standing []string) {
	orders, standing = l.orders, l.standing
	l.orders, l.standing = l.orders[:0], l.standing[:0]
	return orders, standing
}

// Report takes what a process of a container says. No process is believed
// beyond the device: a residency is capped by the capacity and by what the
// process allocated. Reports of unknown containers are refused.
func (l *Ledger) Report(now time.Duration, id string, pid int, u Usage) error {
	a, ok := l.find(id)
	if !ok {
		return fmt.Errorf("report of process %d in container %s: no such container", pid, id)
	}
	if u.Allocated < 0 || u.Resident < 0 || u.Context < 0 {
		return fmt.Errorf("report of process %d in container %s: negative size", pid, id)
	}
	// A process may have swapped out as much as the host holds, which we do not
	// know; a bound that no sum over processes overflows is enough.
	const most = 1 << 48
	u.Allocated = min(u.Allocated, most)
	u.Resident = min(u.Resident, u.Allocated, l.cfg.Capacity)
	u.Context = min(u.Context, l.cfg.Capacity)
	bound := l.believed(a)
	l.recharge(a, func() {
		a.bound = bound
		a.put(pid, u)
	})
	l.over = l.used > l.cfg.Capacity
	l.pump(now)
	return nil
}

// believed is what an account may be believed to have on the device: what is there
// less what others have that run, or that cannot be moved, and their contexts, but
// its own promises in any case. A container that reports more is wrong, or has pushed idle memory
// of others out, which those will say themselves; it must not take from promises.
func (l *Ledger) believed(a *memory) int64 {
	most := l.cfg.Capacity - l.foreign - (l.firm - a.firm())
	return max(most, a.promised+a.want, 0)
}

func (a *memory) put(pid int, u Usage) {
	defer a.sum()
	for i := range a.processes {
		if a.processes[i].pid == pid {
			a.processes[i].usage = u
			return
		}
	}
	a.processes = append(a.processes, process{pid, u})
}

// Exited takes the end of one process: its memory is gone from both sides.
func (l *Ledger) Exited(now time.Duration, id string, pid int) {
	a, ok := l.find(id)
	if !ok {
		return
	}
	for i := range a.processes {
		if a.processes[i].pid == pid {
			bound := min(a.bound, l.believed(a))
			l.recharge(a, func() {
				a.processes = append(a.processes[:i], a.processes[i+1:]...)
				a.bound = bound
				a.sum()
			})
			l.over = l.used > l.cfg.Capacity
			break
		}
	}
	l.pump(now)
}

// Moved acknowledges an order. It reports whether the acknowledgement was the
// awaited one; a stale one changes nothing. After an eviction, what is still
// resident is taken as immovable until the container runs again.
func (l *Ledger) Moved(now time.Duration, id string, epoch uint64) bool {
	a, ok := l.find(id)
	if !ok || a.move == settled || a.epoch != epoch {
		return false
	}
	bound := min(a.bound, l.believed(a))
	l.recharge(a, func() {
		if a.move == evicting {
			a.pinned = a.resident
			a.bound = bound
			a.sum()
		}
		a.coming = 0
		l.setMove(a, settled)
	})
	l.over = l.used > l.cfg.Capacity
	l.pump(now)
	return true
}

// Awaits reports whether an acknowledgement of this epoch is awaited.
func (l *Ledger) Awaits(id string, epoch uint64) bool {
	a, ok := l.find(id)
	return ok && a.move != settled && a.epoch == epoch
}

// Leave takes the news that an idle container is being removed. What it holds
// is charged until it is gone, and counts as memory that comes; nothing of it is
// moved any more, and an order under way is void.
func (l *Ledger) Leave(now time.Duration, id string) {
	a, ok := l.find(id)
	if !ok {
		return
	}
	if !a.idle() {
		panic("gpu: container " + id + " leaves while it runs")
	}
	a.removing = true
	if a.move != settled {
		l.setMove(a, settled)
		a.epoch++
	}
	l.recharge(a, func() { a.coming = 0 })
	l.orders = slices.DeleteFunc(l.orders, func(o Order) bool { return o.Container == id })
	l.pump(now)
}

// Gone takes the end of a container: its memory, its context and its
// reservations, standing or not, are void, and what was not yet read from Ready
// about it is withdrawn. Unknown containers are ignored.
func (l *Ledger) Gone(now time.Duration, id string) {
	a, ok := l.find(id)
	if !ok {
		return
	}
	kept := l.waiting[:0]
	for _, w := range l.waiting {
		if w.a != a {
			kept = append(kept, w)
		}
	}
	l.waiting = kept
	l.orders = slices.DeleteFunc(l.orders, func(o Order) bool { return o.Container == id })
	l.standing = slices.DeleteFunc(l.standing, func(s string) bool { return s == id })
	l.setMove(a, settled)
	l.cfg.EvictFlags.Leave(&a.evictFlag)
	l.used -= a.charge()
	l.firm -= a.firm()
	l.over = l.used > l.cfg.Capacity
	delete(l.byID, id)
	l.containers = without(l.containers, a)
	l.pump(now)
}

// Prefetch brings an idle container's memory in ahead of a run. It never
// stands in the way of a reservation: with one waiting, or without free memory, it
// does nothing. When evictOthers is set it orders memory out that is flagged
// evictable, and the caller asks again when that is done. It reports whether
// the memory is on the device or on its way.
func (l *Ledger) Prefetch(now time.Duration, id string, evictOthers bool) bool {
	a, ok := l.find(id)
	if !ok {
		return false
	}
	if a.move == prefetching || (a.move == settled && a.resident >= a.footprint) {
		return true
	}
	if !a.idle() || a.removing || len(l.waiting) > 0 || l.over {
		return false
	}
	if a.evictFlag.On() && a.move == evicting && l.cfg.Headroom > 0 {
		return false // the headroom would have it moved out again at once, for ever
	}
	lack := a.footprint - max(a.resident, a.coming) - l.Free()
	if lack > 0 {
		if evictOthers {
			l.evict(now, lack, a, true)
		}
		return false
	}
	l.cancelEviction(a)
	l.recharge(a, func() { a.coming = a.footprint })
	l.bringBack(now, a)
	return true
}

// MoveOut has an idle container's memory moved out however much is free. False:
// none of it can be moved.
func (l *Ledger) MoveOut(now time.Duration, id string) bool {
	a, ok := l.find(id)
	switch {
	case !ok || !a.idle() || a.removing:
		return false
	case a.move == evicting:
		return true
	case a.movable() == 0:
		return false
	}
	l.order(now, a, evicting)
	return true
}

// Deadline returns when Tick would give an overdue order again; ok is false
// when nothing is awaited.
func (l *Ledger) Deadline() (at time.Duration, ok bool) {
	if l.cfg.AckTimeout == 0 || l.moving == 0 {
		return 0, false
	}
	for _, a := range l.containers {
		if due := a.ordered + l.cfg.AckTimeout; a.move != settled && (!ok || due < at) {
			at, ok = due, true
		}
	}
	return at, ok
}

// Tick repeats the orders whose acknowledgement is overdue.
func (l *Ledger) Tick(now time.Duration) {
	if l.cfg.AckTimeout == 0 || l.moving == 0 {
		return
	}
	for _, a := range l.containers {
		if a.move != settled && now >= a.ordered+l.cfg.AckTimeout {
			a.ordered = now
			l.orders = append(l.orders, a.asOrder(true))
		}
	}
}

// order starts a movement under a new epoch.
func (l *Ledger) order(now time.Duration, a *memory, m moveState) {
	l.setMove(a, m)
	a.epoch++
	a.ordered = now
	l.orders = append(l.orders, a.asOrder(false))
}

func (a *memory) asOrder(again bool) Order {
	o := Order{Kind: Prefetch, Container: a.id, Epoch: a.epoch, Bytes: a.footprint - a.resident, Again: again}
	if a.move == evicting {
		o.Kind, o.Bytes = Evict, a.resident
	}
	return o
}
