// Package slot decides about the slots of an invoker in OpenWhisk's scheduler mode. A
// scheduler sees a slot as a container: one key in etcd, and as many concurrent fetches as the
// container may run activations. A slot of a CPU action has a container of its own. A GPU
// function has one slot; its activations are pulled through the slot into the queue of the GPU
// scheduler, which decides about containers (gpu.go).
//
// The package is pure. Events come in with the time attached, orders go out, and the caller
// carries them out and reports the results. Orders about one key, and about one slot's
// container, are carried out in the order in which they were given.
//
// The states of a slot. Their order loses no activation: a fetch that arrives at a scheduler
// after the deletion of the slot's key would leave a container there that does not exist.
//
//	acquiring     its container is created or resumed
//	registering   its existing key is put
//	open          it fetches; only now the creation is acknowledged
//	leaving       it no longer fetches, and waits for the fetches in flight
//	pausing       its container is paused
//	warming       its warmed key is put; then the existing key is deleted
//	paused        a creation resumes it
package slot

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// ID names a slot. Ids are never used again in one process.
type ID uint64

// Creation is a scheduler's order for a container, with the limits from the action's metadata.
type Creation struct {
	*activation.ContainerCreation
	Kind        string
	MemoryMB    int
	Concurrency int // runs in one container at once, at least 1
	GPU         bool
}

// Config has the durations and bounds.
type Config struct {
	PauseGrace  time.Duration // a slot that ran nothing for so long is paused, or removed
	IdleTimeout time.Duration // a paused one is removed
	Keeping     time.Duration // how much longer one stays that its namespace keeps
	GPU         GPU
}

// Never as a duration of Config switches its timer off.
const Never = time.Duration(-1)

type state int

const (
	acquiring state = iota
	registering
	open
	leaving
	pausing
	warming
	paused
)

// aim is where a slot goes when it has left.
type aim int

const (
	toStay aim = iota
	toPause
	toRemove
)

// slot is one slot.
type slot struct {
	id ID
	Creation
	state    state
	aim      aim
	acquired bool // it has a container
	warmed   bool // which is initialised
	existing bool // its existing key is put, or being put
	warm     bool // its warmed key is
	calls    int  // fetches that are out
	runs     int  // activations that it pulled and that have not ended
	used     bool // it ever pulled one
	lost     bool // the scheduler has no queue: another one is looked for
	gpuPart
	shortage
	ack      *Creation
	since    time.Duration // when it became idle, or was paused, or has no container
	last     time.Duration // duration of the last run, to be reported
	ended    bool          // there is one
	counting bool
	kept     bool // its idle time is over, and its namespace keeps it
	keep     Keep
}

// Keep is a namespace's limit for paused containers.
type Keep struct {
	Containers int           // of a function
	Time       time.Duration // how much longer; 0: Config.Keeping
}

// Table has all slots of an invoker. It is not safe for use by several goroutines.
//
// Invariants, asserted by check:
//
//	a fetch is out only while the existing key is there
//	calls + runs <= concurrency of a CPU slot, <= 1 before its container is initialised
//	a slot that is pausing, warming or paused has no call and no run
//	a creation that has no ack is a slot's, or waits
type Table struct {
	cfg     Config
	next    ID
	slots   []*slot // by id
	waiting []waiting
	warm    []function
	load    load
	closed  bool
	stopped bool // nothing is fetched any more
	orders  []Order
}

// New makes an empty table.
func New(cfg Config) *Table { return &Table{cfg: cfg} }

// Reasons of acks. Where an error ends a job, users read them.
const (
	reasonClosed   = "The invoker accepts no containers now."
	reasonEnded    = "The container ended before it could fetch."
	reasonNoDevice = "The invoker has no GPU that can be used now."
	reasonDeep     = "The GPUs of this invoker have a long backlog. Another invoker may have a shorter one."
)

// Create takes a creation. Each that is taken has one ack.
func (t *Table) Create(now time.Duration, c Creation) {
	if t.inProgress(c.ID) {
		return
	}
	if t.closed {
		t.refuse(c, activation.CreationUnknown, reasonClosed)
		return
	}
	if c.GPU {
		t.createGPU(now, c)
		return
	}
	if s := t.resumable(c.Queue); s != nil {
		t.reuse(now, s, c)
		return
	}
	t.begin(now, c)
}

// begin makes a slot for a creation.
func (t *Table) begin(now time.Duration, c Creation) {
	s := t.add(c)
	s.ack = &c
	t.acquire(now, s)
}

// inProgress reports whether a creation has no ack yet: Kafka may deliver it twice.
func (t *Table) inProgress(id activation.ID) bool {
	return slices.ContainsFunc(t.slots, func(s *slot) bool { return s.ack != nil && s.ack.ID == id }) ||
		slices.ContainsFunc(t.waiting, func(w waiting) bool { return w.ID == id })
}

func (t *Table) add(c Creation) *slot {
	t.next++
	s := &slot{id: t.next, Creation: c}
	t.setWarm(s)
	t.slots = append(t.slots, s)
	return s
}

func (t *Table) get(id ID) *slot {
	i, ok := slices.BinarySearchFunc(t.slots, id, func(s *slot, id ID) int { return cmp.Compare(s.id, id) })
	if !ok {
		return nil
	}
	return t.slots[i]
}

// sameFunction reports whether a container of one queue serves another: versions
// and bindings may differ, revisions not.
func sameFunction(a, b activation.Queue) bool {
	return a.Namespace == b.Namespace && a.Revision == b.Revision && a.Action.Path == b.Action.Path && a.Action.Name == b.Action.Name
}

// resumable returns the slot that was paused last, or is about to be paused, and has no
// creation yet; nil if there is none. A slot without work that has lost its scheduler also
// qualifies, because the creation names a scheduler.
func (t *Table) resumable(q activation.Queue) (best *slot) {
	for _, s := range t.slots {
		if !s.resting() || s.GPU || !sameFunction(s.Queue, q) {
			continue
		}
		if best == nil || s.since > best.since {
			best = s
		}
	}
	return best
}

func (s *slot) resting() bool {
	rests := s.state >= leaving || s.state == open && s.lost && (s.runs == 0 || s.GPU)
	return rests && s.aim != toRemove && s.ack == nil
}

// reuse has a slot that is paused, or about to be, serve a creation.
func (t *Table) reuse(now time.Duration, s *slot, c Creation) {
	s.Creation, s.ack = c, &c
	switch s.state {
	case open, leaving: // its key is there, and nothing was done with its container
		t.opened(now, s)
	case paused:
		t.acquire(now, s)
	}
}

func (t *Table) acquire(now time.Duration, s *slot) {
	s.state, s.aim, s.counting, s.kept, s.shortage = acquiring, toStay, false, false, shortage{}
	if s.GPU { // the GPU scheduler makes its containers
		t.register(now, s)
		return
	}
	t.order(Order{Do: Acquire, Slot: s.id, Creation: s.Creation})
}

// register puts the existing key, before anything is fetched.
func (t *Table) register(now time.Duration, s *slot) {
	if s.existing { // it was paused, and asked for before its key was deleted
		t.opened(now, s)
		return
	}
	s.state, s.existing = registering, true
	t.order(Order{Do: Put, Slot: s.id, Key: Existing, Creation: s.Creation})
}

// opened begins to fetch. A resumed slot's creation gets its ack when the warmed
// key is gone, or a scheduler would claim it once more.
func (t *Table) opened(now time.Duration, s *slot) {
	s.state, s.aim, s.since, s.pulledAt, s.lost = open, toStay, now, now, false
	if t.stopped {
		t.fail(s, activation.CreationUnknown, reasonClosed)
		return
	}
	t.fetch(now, s)
	t.admit(now)
	if s.warm {
		s.warm = false
		t.order(Order{Do: Delete, Slot: s.id, Key: Warmed, Creation: s.Creation})
		return
	}
	t.succeed(s)
}

func (t *Table) succeed(s *slot) {
	if s.ack != nil {
		t.order(Order{Do: Ack, Slot: s.id, Creation: *s.ack})
		s.ack = nil
	}
}

// fail acks the creation of a slot that will not fetch.
func (t *Table) fail(s *slot, why activation.CreationError, reason string) {
	if s.ack != nil {
		t.refuse(*s.ack, why, reason)
		s.ack = nil
	}
}

func (t *Table) refuse(c Creation, why activation.CreationError, reason string) {
	t.order(Order{Do: Ack, Creation: c, Error: why, Reason: reason})
}

// fetch orders as many fetches as may be out.
func (t *Table) fetch(now time.Duration, s *slot) {
	for s.state == open && !s.lost && !t.stopped && t.wants(now, s) {
		s.calls++
		o := Order{Do: Fetch, Slot: s.id, Creation: s.Creation, Warmed: s.warmed, Ended: s.ended, Last: s.last}
		s.ended = false
		t.order(o)
	}
}

// wants reports whether one more fetch may be out.
func (t *Table) wants(now time.Duration, s *slot) bool {
	switch {
	case s.GPU:
		return s.calls == 0 && t.pulls(now, s)
	case s.warmed:
		return s.calls+s.runs < s.Concurrency
	}
	return s.calls+s.runs < 1
}

func (t *Table) order(o Order) { t.orders = append(t.orders, o) }

// Orders returns the orders since the last call, in the order in which they were decided.
func (t *Table) Orders() []Order {
	out := t.orders
	t.orders = nil
	return out
}

// Adopt takes in the container of an earlier process, paused: its warmed key is put.
func (t *Table) Adopt(now time.Duration, c Creation) ID {
	s := t.add(c)
	s.acquired, s.warmed, s.used, s.since = true, true, true, now
	t.rest(s)
	return s.id
}

// rest puts the warmed key of a paused slot.
func (t *Table) rest(s *slot) {
	s.state, s.warm = warming, true
	t.order(Order{Do: Put, Slot: s.id, Key: Warmed, Creation: s.Creation})
}

// remove forgets a slot for which nothing is awaited any more.
func (t *Table) remove(now time.Duration, s *slot) {
	t.fail(s, activation.CreationUnknown, reasonEnded)
	t.deleteKeys(s)
	if s.acquired && !s.GPU {
		t.order(Order{Do: Remove, Slot: s.id, Creation: s.Creation})
	}
	t.slots = slices.DeleteFunc(t.slots, func(one *slot) bool { return one == s })
	t.admit(now)
}

func (t *Table) deleteKeys(s *slot) {
	if s.existing {
		s.existing = false
		t.order(Order{Do: Delete, Slot: s.id, Key: Existing, Creation: s.Creation})
	}
	if s.warm {
		s.warm = false
		t.order(Order{Do: Delete, Slot: s.id, Key: Warmed, Creation: s.Creation})
	}
}
