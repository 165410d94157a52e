package gpu

import "time"

// moveState is the state of the last order about a container's memory.
type moveState uint8

const (
	settled moveState = iota
	prefetching
	evicting
)

// memory is the memory of one container.
//
//	charge   = context + data
//	reserved = data - resident
type memory struct {
	id           Container
	processes    map[int]Usage // as reported, by pid
	resident     int64         // sum over processes
	footprint    int64         // sum over processes, device and host
	reported     int64         // context as reported, summed over processes
	promised     int64         // context as asked for by Reserve
	promises     []int64       // to each of the runs in flight
	forRuns      int64         // the largest reservation
	forPrefetch  int64         // promised to a prefetch ahead of a run
	pinned       int64         // left by an eviction that could not move it, until the next run
	bound        int64         // upper limit of resident plus context; see Ledger.believed
	runs         int           // standing reservations
	reservations int           // standing or waiting
	hold         Hold
	removing     bool // its container is being removed
	overdue      bool // it should have been gone by now
	lastUsed     time.Duration

	move        moveState
	epoch       uint64
	ordered     time.Duration // when the order was last given
	interrupted bool          // an eviction was cancelled under way
}

// context returns the larger of the promised and the reported context memory. A context exists
// from the container's start although it is reported later.
func (a *memory) context() int64 { return max(a.promised, a.reported) }

// data returns the largest of the memory on the device, the memory promised there, and the
// memory that is being moved there.
func (a *memory) data() int64 { return max(a.resident, a.forRuns, a.forPrefetch) }

func (a *memory) charge() int64 { return a.context() + a.data() }

// idle reports whether no run of the container has or awaits a reservation.
func (a *memory) idle() bool { return a.reservations == 0 }

// freed returns the memory that the removal of a container will free, 0 if the removal is
// overdue.
func (a *memory) freed() int64 {
	if a.overdue {
		return 0
	}
	return a.charge()
}

// movable returns the memory that evicting an idle container frees.
func (a *memory) movable() int64 {
	return max(0, max(a.resident, a.forPrefetch)-a.pinned)
}

// sum brings the totals in line with the processes.
func (a *memory) sum() {
	a.resident, a.footprint, a.reported = 0, 0, 0
	for _, u := range a.processes {
		a.resident += u.Resident
		a.footprint += u.Allocated
		a.reported += u.Context
	}
	a.reported = min(a.reported, max(0, a.bound-a.forRuns))
	a.resident = min(a.resident, max(0, a.bound-a.context()))
}

// immovable returns the part of a container's memory that cannot be moved now: its contexts
// and, if it runs, all of its data. For an idle container it is the rest that an eviction has
// left.
func (a *memory) immovable() int64 {
	if a.runs > 0 {
		return a.charge()
	}
	return a.context() + min(a.pinned, a.resident)
}

// recharge applies a change to a container's memory and carries it into the total.
func (l *Ledger) recharge(a *memory, change func()) {
	l.counted = false
	before, outside := a.charge(), a.footprint-a.resident
	change()
	l.movedOut += max(0, a.footprint-a.resident-outside)
	l.used += a.charge() - before
	if l.used <= l.cfg.Capacity {
		l.overReported = false
	}
}

// extra returns the increase of the total if the need is granted.
func (l *Ledger) extra(a *memory, need MemoryRequest) int64 {
	return max(a.context(), need.Context) + max(a.data(), need.Bytes) - a.charge()
}

func (l *Ledger) fits(a *memory, need MemoryRequest) bool {
	return !l.overReported && l.extra(a, need) <= l.Free()
}

// grant lets a reservation stand and brings its memory in.
func (l *Ledger) grant(now time.Duration, a *memory, need MemoryRequest) {
	l.cancelEviction(a)
	l.recharge(a, func() {
		a.promised = max(a.promised, need.Context)
		a.forRuns = max(a.forRuns, need.Bytes)
		a.promises = append(a.promises, need.Bytes)
		a.runs++
		a.pinned = 0
	})
	l.bringBack(now, a)
}

// bringBack orders a prefetch, if some of the memory is on the host and none is under
// way. The memory on the device must have been charged.
func (l *Ledger) bringBack(now time.Duration, a *memory) {
	if a.move == prefetching || (a.resident >= a.footprint && !a.interrupted) {
		return
	}
	a.interrupted = false
	// The promise lasts until the end of the move, however the run for which it is made ends.
	l.recharge(a, func() { a.forPrefetch = min(a.footprint, a.data()) })
	l.order(now, a, prefetching)
}

// cancelEviction makes the acknowledgement of a running eviction void. Its
// bytes were charged as resident all along; how many had left already follows
// from the container's next report.
func (l *Ledger) cancelEviction(a *memory) {
	if a.move != evicting {
		return
	}
	a.move = settled
	a.epoch++
	a.interrupted = true
}
