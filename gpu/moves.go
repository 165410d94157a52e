package gpu

import (
	"fmt"
	"slices"
	"time"
)

// OrderKind is the direction in which a container's memory is moved.
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

// Move is a ledger's order to move a container's memory and to answer with Report
// for each of its processes, then Moved with the same epoch. A move of a newer
// epoch replaces every older one of its container.
type Move struct {
	Container Container
	Kind      OrderKind
	Epoch     uint64
	Bytes     int64 // expected to move
	Again     bool  // the same order as before: its acknowledgement is overdue
}

// Order is a move as it is carried out, with the container's name at the engine.
type Order struct {
	Kind      OrderKind
	Container string
	Epoch     uint64
	Bytes     int64
	Again     bool
}

// slowestLink is the assumed minimum speed, in bytes per second, for moving device memory. It
// is less than a third of the slowest measured move: the first eviction of memory on an H200,
// which allocates the host's pages.
const slowestLink = 512 << 20

// SlowestMove returns how long the slowest link takes to move so many bytes.
func SlowestMove(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / slowestLink * float64(time.Second))
}

// Usage is the device memory of one process of a container.
type Usage struct {
	Allocated int64 // altogether, on the device or swapped to the host
	Resident  int64 // part of Allocated that is on the device
	Plain     int64 // part of Allocated that is not managed memory
	Out       int64 // part of Plain that was moved out; the driver lists the rest for the process
	Context   int64 // the overhead of its CUDA context
	Pinned    int64 // host memory that it has pinned, which is not device memory
}

// Managed returns the managed part of Allocated, on the device or not. NVML lists it for no
// process.
func (u Usage) Managed() int64 { return u.Allocated - u.Plain }

// Listed returns the memory that NVML lists for the process: plain memory that is on the
// device.
func (u Usage) Listed() int64 { return u.Plain - u.Out }

// Ready returns the moves to carry out, oldest first, and the containers whose waiting
// reservations are now granted, one entry per reservation. Each is returned once.
func (l *Ledger) Ready() (moves []Move, standing []Container) {
	moves, standing = l.moves, l.standing
	l.moves, l.standing = nil, nil
	return moves, standing
}

// Report applies the usage of a process of a container. A report never counts beyond the
// device: the resident size is capped by the capacity and by the process' allocations. Reports
// of unknown containers are refused.
func (l *Ledger) Report(now time.Duration, id Container, pid int, u Usage) error {
	a, ok := l.byID[id]
	if !ok {
		return fmt.Errorf("report of process %d in container %d: no such container", pid, id)
	}
	if u.Allocated < 0 || u.Resident < 0 || u.Context < 0 {
		return fmt.Errorf("report of process %d in container %d: negative size", pid, id)
	}
	// A process may have swapped out as much as the host has, whatever that is; a
	// bound that no sum over processes overflows is enough.
	const most = 1 << 48
	u.Allocated = min(u.Allocated, most)
	u.Resident = min(u.Resident, u.Allocated, l.cfg.Capacity)
	u.Context = min(u.Context, l.cfg.Capacity)
	bound := l.believed(a)
	l.recharge(a, func() {
		a.processes[pid], a.bound = u, bound
		a.sum()
	})
	l.overReported = l.used > l.cfg.Capacity
	l.pump(now)
	return nil
}

// believed returns the memory on the device that a container may report: the capacity less the
// immovable memory of the other containers, but at least its own promises. A container that
// reports more is either wrong or has displaced idle memory of others, which those will report
// themselves. It must not reduce the promises to others.
func (l *Ledger) believed(a *memory) int64 {
	most := l.cfg.Capacity - l.foreign
	for _, other := range l.containers {
		if other != a {
			most -= other.immovable()
		}
	}
	return max(most, a.promised+a.forRuns, 0)
}

// Exited takes the end of one process: its memory is gone from both sides.
func (l *Ledger) Exited(now time.Duration, id Container, pid int) {
	a, ok := l.byID[id]
	if !ok {
		return
	}
	if _, known := a.processes[pid]; known {
		bound := min(a.bound, l.believed(a))
		l.recharge(a, func() {
			delete(a.processes, pid)
			a.bound = bound
			a.sum()
		})
		l.overReported = l.used > l.cfg.Capacity
	}
	l.pump(now)
}

// Moved acknowledges a move. It returns false for a stale acknowledgement, which changes
// nothing. After an eviction, memory that is still resident counts as immovable until the
// container runs again.
func (l *Ledger) Moved(now time.Duration, id Container, epoch uint64) bool {
	a, ok := l.byID[id]
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
		a.forPrefetch = 0
		a.move = settled
	})
	l.overReported = l.used > l.cfg.Capacity
	l.pump(now)
	return true
}

// Awaits reports whether an acknowledgement of this epoch is awaited.
func (l *Ledger) Awaits(id Container, epoch uint64) bool {
	a, ok := l.byID[id]
	return ok && a.move != settled && a.epoch == epoch
}

// Leave begins the removal of an idle container. Its memory is charged until it is gone and
// counts as being freed. None of it is moved any more, and a move in progress is cancelled.
func (l *Ledger) Leave(now time.Duration, id Container) {
	a, ok := l.byID[id]
	if !ok {
		return
	}
	if !a.idle() {
		panic(fmt.Sprintf("gpu: container %d leaves while it runs", id))
	}
	a.removing = true
	if a.move != settled {
		a.move = settled
		a.epoch++
	}
	a.ordered = now
	l.withdraw(id)
	l.pump(now)
}

// Gone applies the end of a container: its memory, its context and its reservations are
// dropped, and unread entries of Ready about it are withdrawn. Unknown containers are ignored.
func (l *Ledger) Gone(now time.Duration, id Container) {
	a, ok := l.byID[id]
	if !ok {
		return
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(w wait) bool { return w.a == a })
	l.standing = slices.DeleteFunc(l.standing, func(s Container) bool { return s == id })
	l.withdraw(id)
	l.used -= a.charge()
	l.overReported = l.used > l.cfg.Capacity
	delete(l.byID, id)
	l.containers = slices.DeleteFunc(l.containers, func(other *memory) bool { return other == a })
	l.pump(now)
}

// withdraw drops the moves of a container that Ready has not returned.
func (l *Ledger) withdraw(id Container) {
	l.moves = slices.DeleteFunc(l.moves, func(m Move) bool { return m.Container == id })
}

// Prefetch moves an idle container's memory in ahead of a run. It never delays a
// reservation: with one waiting, or without free memory, it does nothing. It reports
// whether the memory is on the device or on its way.
func (l *Ledger) Prefetch(now time.Duration, id Container) bool {
	a, ok := l.byID[id]
	if !ok {
		return false
	}
	if a.move == prefetching || (a.move == settled && a.resident >= a.footprint) {
		return true
	}
	if !a.idle() || a.removing || len(l.waiting) > 0 || l.overReported {
		return false
	}
	if a.hold.evictable() && a.move == evicting && l.cfg.Headroom > 0 {
		return false // the headroom would have it moved out again at once, for ever
	}
	if a.footprint-max(a.resident, a.forPrefetch) > l.Free() {
		return false
	}
	l.cancelEviction(a)
	l.recharge(a, func() { a.forPrefetch = a.footprint })
	l.bringBack(now, a)
	return true
}

// MoveOut evicts an idle container's memory, however much memory is free. It returns false if
// none of the memory can be moved.
func (l *Ledger) MoveOut(now time.Duration, id Container) bool {
	a, ok := l.byID[id]
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

// awaits is when an answer about a container's memory is overdue: about its move or
// its removal; false when none is awaited.
func (l *Ledger) awaits(a *memory) (due time.Duration, ok bool) {
	if a.move != settled {
		return a.ordered + l.cfg.AskAgain, l.cfg.AskAgain > 0
	}
	return a.ordered + l.cfg.AckTimeout, l.cfg.AckTimeout > 0 && a.removing && !a.overdue
}

// Deadline returns when Tick would repeat an overdue move or give up waiting for a
// removal; ok is false when no answer is awaited.
func (l *Ledger) Deadline() (at time.Duration, ok bool) {
	for _, a := range l.containers {
		if due, some := l.awaits(a); some && (!ok || due < at) {
			at, ok = due, true
		}
	}
	return at, ok
}

// Tick repeats the moves whose acknowledgement is overdue, and counts no more on the
// memory of containers whose removal is.
func (l *Ledger) Tick(now time.Duration) {
	for _, a := range l.containers {
		due, some := l.awaits(a)
		switch {
		case !some || now < due:
		case a.removing:
			a.overdue, l.counted = true, false
			l.pump(now)
		default:
			l.appendMove(now, a, true)
		}
	}
}

// order starts a move under a new epoch.
func (l *Ledger) order(now time.Duration, a *memory, to moveState) {
	a.move = to
	a.epoch++
	l.appendMove(now, a, false)
}

func (l *Ledger) appendMove(now time.Duration, a *memory, again bool) {
	a.ordered = now
	m := Move{Container: a.id, Kind: Prefetch, Epoch: a.epoch, Bytes: a.footprint - a.resident, Again: again}
	if a.move == evicting {
		m.Kind, m.Bytes = Evict, a.resident
	}
	l.moves = append(l.moves, m)
}
