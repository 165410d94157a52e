package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrTooBig means that a reservation can never be granted: it is larger than the device less
// the immovable memory.
var ErrTooBig = errors.New("does not fit the device")

// Container numbers a container of the GPU scheduler, in the order of their creation;
// 0 is none.
type Container uint64

// LedgerConfig describes one device to its ledger.
type LedgerConfig struct {
	// Capacity is the device memory in bytes that containers may share.
	Capacity int64
	// Headroom is how much the ledger tries to keep free beforehand by evicting
	// memory that is evictable. 0 evicts on demand only.
	Headroom int64
	// AckTimeout is the time after Leave at which a container that is not gone counts as
	// staying; 0 means for ever.
	AckTimeout time.Duration
	// AskAgain is how long a move may be unacknowledged before it is ordered again: an
	// acknowledgement is never assumed. 0 takes AckTimeout.
	AskAgain time.Duration
}

// Ledger accounts for the memory of one device and decides which memory moves. Its invariant,
// true after every call:
//
//	resident + reserved + context overhead + foreign <= capacity
//
// The exception is a container that reported more than it was promised. The ledger then grants
// nothing and evicts until the invariant holds again. No report reduces the promises to
// others; a container's report is capped at that point. A run may start only after its
// reservation is granted. Memory is accounted per container, summed over its processes,
// because a container may do its GPU work in child processes.
//
// The ledger gives orders to move memory (Ready) and takes events (Report, Moved, Gone). Each
// move carries an epoch of its container. An acknowledgement with an older epoch changes
// nothing, so a late eviction cannot undo a newer prefetch.
type Ledger struct {
	cfg          LedgerConfig
	containers   []*memory // in the order in which they came: the last tie-break
	byID         map[Container]*memory
	waiting      []wait // oldest first
	used         int64  // sum of charges, plus foreign
	movedOut     int64  // see Totals
	foreign      int64
	overReported bool // a report, not a grant, took used beyond the capacity
	counted      bool // available is as of now
	available    int64
	moves        []Move
	standing     []Container
}

// wait is a reservation that does not stand yet.
type wait struct {
	a    *memory
	need MemoryRequest
}

// MemoryRequest is the device memory that one run asks for.
type MemoryRequest struct {
	// Bytes is the data the run's container is expected to hold on the device.
	Bytes int64
	// Context is the overhead of the container's CUDA contexts. It stays as
	// long as the container lives.
	Context int64
}

// NewLedger returns the empty ledger of one device.
func NewLedger(cfg LedgerConfig) (*Ledger, error) {
	switch {
	case cfg.Capacity <= 0:
		return nil, fmt.Errorf("ledger capacity %d: must be positive", cfg.Capacity)
	case cfg.Headroom < 0 || cfg.Headroom > cfg.Capacity:
		return nil, fmt.Errorf("ledger headroom %d: must lie within 0 and the capacity %d", cfg.Headroom, cfg.Capacity)
	case cfg.AckTimeout < 0 || cfg.AskAgain < 0:
		return nil, fmt.Errorf("ledger acknowledgement timeout %v, asked again after %v: must not be negative", cfg.AckTimeout, cfg.AskAgain)
	}
	cfg.AskAgain = cmp.Or(cfg.AskAgain, cfg.AckTimeout)
	return &Ledger{cfg: cfg, byID: make(map[Container]*memory)}, nil
}

// Reserve asks for memory for one run in a container, which becomes known with it.
// When standing is true the run may start at once; otherwise the reservation waits
// in line and its container appears in Ready's second result when it stands. It
// cancels an eviction of its own container.
// ErrTooBig means that it could never stand; nothing changed then.
func (l *Ledger) Reserve(now time.Duration, id Container, need MemoryRequest) (standing bool, err error) {
	if need.Bytes < 0 || need.Context < 0 {
		return false, fmt.Errorf("reserve %d bytes and %d of context for container %d: must not be negative", need.Bytes, need.Context, id)
	}
	if need.Bytes > l.cfg.Capacity || need.Context > l.cfg.Capacity || need.Bytes+need.Context > l.cfg.Capacity {
		return false, fmt.Errorf("reserve %d bytes and %d of context on a device of %d for container %d: %w",
			need.Bytes, need.Context, l.cfg.Capacity, id, ErrTooBig)
	}
	a := l.open(id)
	a.lastUsed = now
	a.reservations++
	l.cancelEviction(a)
	if len(l.waiting) == 0 && l.fits(a, need) {
		l.grant(now, a, need)
		l.pump(now)
		return true, nil
	}
	l.waiting = append(l.waiting, wait{a, need})
	l.pump(now)
	return false, nil
}

// Release ends the oldest run of a container that Reserve let start.
func (l *Ledger) Release(now time.Duration, id Container) {
	if a := l.lookup(id); a.runs > 0 {
		l.ReleaseBytes(now, id, a.promises[0])
		return
	}
	panic(fmt.Sprintf("gpu: release of container %d without a standing reservation", id))
}

// ReleaseBytes ends one run that Reserve let start for so many bytes. The container's
// memory stays where it is until it is needed.
func (l *Ledger) ReleaseBytes(now time.Duration, id Container, bytes int64) {
	a := l.lookup(id)
	at := slices.Index(a.promises, bytes)
	if at < 0 {
		panic(fmt.Sprintf("gpu: release of container %d without a standing reservation of %d bytes", id, bytes))
	}
	a.reservations--
	a.lastUsed = now
	l.recharge(a, func() {
		a.promises = slices.Delete(a.promises, at, at+1)
		a.runs, a.forRuns = a.runs-1, 0
		for _, n := range a.promises {
			a.forRuns = max(a.forRuns, n)
		}
	})
	l.pump(now)
}

// Cancel withdraws the nth of a container's reservations that do not stand yet, the
// oldest being number 0. Each asks for a size of its own.
func (l *Ledger) Cancel(now time.Duration, id Container, nth int) {
	for i, w := range l.waiting {
		if w.a.id != id {
			continue
		}
		if nth == 0 {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			w.a.reservations--
			l.pump(now)
			return
		}
		nth--
	}
	panic(fmt.Sprintf("gpu: cancel of container %d without such a reservation", id))
}

// Hold is how willingly the memory of an idle container is given up: the least first.
type Hold uint8

const (
	// NeededNext is that of a flow whose queued work may run next. It is evicted only for a
	// run that cannot start otherwise.
	NeededNext Hold = iota
	// NeededLater is that of a flow whose queued work may not run now.
	NeededLater
	// Expected is that of a flow without queued work that may come back soon.
	Expected
	// Unneeded is that of a flow that has had no work for long.
	Unneeded
)

// evictable reports whether memory is evicted ahead of need, for the headroom.
func (h Hold) evictable() bool { return h == NeededLater || h == Unneeded }

// SetHold changes how willingly the memory of a container is given up.
func (l *Ledger) SetHold(now time.Duration, id Container, hold Hold) {
	a, ok := l.byID[id]
	if !ok || a.hold == hold {
		return
	}
	a.hold = hold
	if !hold.evictable() && a.reservations == 0 && a.move == evicting && len(l.waiting) == 0 && !l.overReported {
		l.cancelEviction(a) // it was evicted ahead of need, and now it is needed again
		l.bringBack(now, a)
	}
	l.pump(now)
}

// Free returns the bytes that are neither held nor promised. It is negative after a container
// took more than its promise.
func (l *Ledger) Free() int64 { return l.cfg.Capacity - l.used }

// Used returns the bytes held or promised.
func (l *Ledger) Used() int64 { return l.used }

// Shortfall returns the bytes that the oldest waiting reservation would still
// lack if every idle container's memory were evicted and those being removed
// were gone. When it is positive, only the end of a run or the removal of
// another idle container (which frees its context) can help.
func (l *Ledger) Shortfall() int64 {
	if len(l.waiting) == 0 {
		return 0
	}
	lack := l.extra(l.waiting[0].a, l.waiting[0].need) - l.Free()
	for _, a := range l.containers {
		switch {
		case a.removing:
			lack -= a.freed()
		case a.idle():
			lack -= a.movable()
		}
	}
	return max(0, lack)
}

// Possible reports whether a reservation could be granted without waiting for a run to end:
// after the reservations that wait already, with every other idle container evicted or
// removed. If only possible reservations are dispatched, no runs wait for each other's memory.
func (l *Ledger) Possible(id Container, need MemoryRequest) bool {
	own, ok := l.byID[id]
	if !ok {
		return need.Bytes+need.Context <= l.Available()
	}
	lack := l.extra(own, need)
	if len(l.waiting) == 0 && lack <= l.Free() {
		return true
	}
	return lack <= l.availableWith(own)
}

// Available returns how much a new container could be promised without waiting for a
// run to end, in the sense of Possible; negative where that is nothing.
func (l *Ledger) Available() int64 {
	if !l.counted {
		l.counted, l.available = true, l.availableWith(nil)
	}
	return l.available
}

// Usable returns the memory that a container could have if nothing else ran here: everything
// but foreign memory and the memory of containers whose removal is overdue.
func (l *Ledger) Usable() int64 {
	n := l.cfg.Capacity - l.foreign
	for _, a := range l.containers {
		if a.overdue {
			n -= a.charge()
		}
	}
	return n
}

// availableWith returns the free memory plus the memory of idle containers other than own,
// less the memory for waiting reservations.
func (l *Ledger) availableWith(own *memory) int64 {
	n := l.Free()
	for _, w := range l.waiting {
		n -= l.extra(w.a, w.need)
	}
	for _, a := range l.containers {
		if a != own && a.idle() {
			n += a.freed()
		}
	}
	return n
}

// Residency returns a container's data on the device and its data altogether, on
// the device or the host. Both are 0 for an unknown container.
func (l *Ledger) Residency(id Container) (resident, footprint int64) {
	a := l.lookup(id)
	return a.resident, a.footprint
}

// Data returns the largest of a container's data on the device, the data promised there, and
// the data being moved there, without contexts. It returns 0 for an unknown container.
func (l *Ledger) Data(id Container) int64 {
	return l.lookup(id).data()
}

// Overdue reports whether a container should have been gone by now.
func (l *Ledger) Overdue(id Container) bool { return l.lookup(id).overdue }

// Overhead returns the size of a container's contexts, 0 if it is unknown.
func (l *Ledger) Overhead(id Container) int64 { return l.lookup(id).context() }

// SetForeign charges memory that belongs to no container: allocations that
// escape the shim, or another user of the device, as NVML finds them.
func (l *Ledger) SetForeign(now time.Duration, bytes int64) {
	bytes = min(max(bytes, 0), l.cfg.Capacity)
	l.used += bytes - l.foreign
	l.foreign = bytes
	l.overReported = l.used > l.cfg.Capacity
	l.pump(now)
}

// Adopt makes a container known that exists already and is idle. Its memory is
// reported like that of any other.
func (l *Ledger) Adopt(id Container) { l.open(id) }

func (l *Ledger) open(id Container) *memory {
	if a, ok := l.byID[id]; ok {
		return a
	}
	a := &memory{id: id, bound: l.cfg.Capacity, processes: map[int]Usage{}}
	l.byID[id] = a
	l.containers = append(l.containers, a)
	return a
}

// lookup is a container's memory, to be read; that of an unknown one is empty.
func (l *Ledger) lookup(id Container) *memory {
	if a := l.byID[id]; a != nil {
		return a
	}
	return &memory{}
}

// Totals has the ledger's charges in bytes.
type Totals struct {
	Resident  int64 // data of containers on the device
	Allocated int64 // data of containers, on the device or on the host
	Reserved  int64 // promised to runs and prefetches beyond that
	Context   int64 // overhead of containers
	Foreign   int64 // of no known container
	// MovedOut is the data that left the device for the host so far.
	MovedOut int64
}

// Totals sums over all containers.
func (l *Ledger) Totals() Totals {
	t := Totals{Foreign: l.foreign, MovedOut: l.movedOut}
	for _, a := range l.containers {
		t.Resident += a.resident
		t.Allocated += max(a.resident, a.footprint)
		t.Context += a.context()
		t.Reserved += a.charge() - a.context() - a.resident
	}
	return t
}

// Quiet reports whether nothing runs and nothing moves: the memory that the driver
// reports as used is then that of the containers and of other users.
func (l *Ledger) Quiet() bool {
	return !slices.ContainsFunc(l.containers, func(a *memory) bool { return a.runs > 0 || a.move != settled })
}
