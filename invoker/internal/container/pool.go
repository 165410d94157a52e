package container

import (
	"fmt"
	"slices"
	"time"
)

// SlotID names one container inside the pool, from the decision to create it
// until it is gone. Ids are never used again.
type SlotID int64

// Start is how a placement gets its container; the names are OpenWhisk's container
// states.
type Start int

// How a placement gets its container.
const (
	Warm      Start = iota // a container that has run this action before
	Prewarmed              // a started container of the same kind, not initialised
	Cold                   // a container that must be created
)

// String gives OpenWhisk's name of the container state, as metrics and logs
// show it.
func (s Start) String() string {
	return [...]string{"warmed", "prewarmed", "cold"}[s]
}

// Demand is an activation that waits for a container.
type Demand struct {
	Invocation  uint64 // the caller's name of the activation
	Key         string // containers are shared among equal keys only
	Kind        string // resolved action kind; prewarmed containers match on it
	MemoryMB    int
	Concurrency int  // activations that one container may run at once, at least 1
	Prewarm     bool // may be served by a prewarmed container
	Pin         bool // the placement pins the container (Pool.Unpin) and runs nothing
}

// Placement is the pool's decision to run an invocation in a slot.
type Placement struct {
	Invocation uint64
	Slot       SlotID
	Start      Start
	Resume     bool // the container is paused: resume it first
	First      bool // first run after the container was idle
}

// OrderKind is the kind of an Order.
type OrderKind int

// The kinds of orders.
const (
	CreatePrewarm OrderKind = iota // create a container; answer Started or Gone
	Pause                          // pause it; answer Paused
	Remove                         // remove it; answer Gone
)

// Order is work that the pool wants done outside. Kind and MemoryMB are set
// for CreatePrewarm only.
type Order struct {
	Do       OrderKind
	Slot     SlotID
	Kind     string
	MemoryMB int
}

// Never as a Config duration switches its timer off.
const Never = time.Duration(-1)

// Config holds the pool's limits. Durations count from the pool's epoch.
type Config struct {
	MemoryMB    int           // sum of the memory of all containers
	PauseGrace  time.Duration // a container idle for so long is paused
	IdleTimeout time.Duration // a container paused for so long is removed
	Overtake    time.Duration // how long warm runs may pass a blocked head
	StemCells   []StemCell
	Expiry      Expiry
}

// Pool decides for every container of one invoker. It is not safe for use by
// several goroutines: its owner is the dispatcher.
//
// Invariants, asserted by check:
//
//	used == reserved + sum of the memory of all slots <= MemoryMB
//	freeing == sum of the memory of slots in removing
//	a slot is in exactly one of: idle list, paused list, prewarm list, none
//	a slot is in no list while an activation runs in it or it is pinned
type Pool struct {
	cfg      Config
	next     SlotID
	used     int // MiB
	freeing  int // MiB, part of used
	reserved int // MiB, part of used: containers that others keep
	setAside int // MiB that no prewarmed container may take, see SetAside
	slots    map[SlotID]*slot
	warm     map[string][]*slot // by key: idle containers with that action's code, most recently used last
	idle     slotQueue          // ready, no activation runs in them; longest idle first
	paused   slotQueue          // the same, paused; longest paused first
	cells    []*cell
	queue    queue
	ready    []string // keys that gained capacity while someone waits
	orders   []Order
	pass     time.Duration // when the next pass over reactive stem cells is due; Never
}

// New checks cfg and makes an empty pool; prewarmed containers are ordered at
// once, as far as memory allows.
func New(cfg Config, now time.Duration) (*Pool, error) {
	if cfg.MemoryMB <= 0 {
		return nil, fmt.Errorf("pool memory of %d MB: must be positive", cfg.MemoryMB)
	}
	if cfg.Overtake < 0 {
		return nil, fmt.Errorf("overtake of %s: must not be negative", cfg.Overtake)
	}
	p := &Pool{
		cfg:   cfg,
		slots: map[SlotID]*slot{},
		warm:  map[string][]*slot{},
		queue: newQueue(),
		pass:  Never,
	}
	for _, c := range cfg.StemCells {
		if err := c.validate(); err != nil {
			return nil, err
		}
		p.cells = append(p.cells, &cell{StemCell: c})
		if c.Reactive != nil && cfg.Expiry.Interval > 0 {
			p.pass = now + cfg.Expiry.InitDelay
		}
	}
	p.refill(now, nil)
	return p, nil
}

// Enqueue lets an activation wait for its container. The demand must fit.
func (p *Pool) Enqueue(now time.Duration, d Demand) {
	if d.MemoryMB > p.cfg.MemoryMB || d.MemoryMB <= 0 || d.Concurrency < 1 {
		panic(fmt.Sprintf("container: demand of %d MB, concurrency %d", d.MemoryMB, d.Concurrency))
	}
	p.queue.push(d)
	if p.capacity(d.Key) != nil {
		p.ready = append(p.ready, d.Key)
	}
}

// Cancel takes back an Enqueue. It reports whether the activation still waited.
func (p *Pool) Cancel(invocation uint64) bool {
	for w := range p.queue.elements() {
		if w.Invocation == invocation {
			p.queue.remove(w)
			return true
		}
	}
	return false
}

// Next starts one waiting activation. It returns false if none can be started now. Activations
// start in order of arrival. An activation steps aside if a container of its own action is
// about to be free. The first activation that must wait for memory is the head. Until
// Config.Overtake has passed, others may overtake the head into containers that are warm for
// them, which costs the head nothing. After that, each container that falls idle may be
// evicted for the head, so a busy function cannot starve a large one.
func (p *Pool) Next(now time.Duration) (Placement, bool) {
	for w := range p.queue.elements() {
		if pl, ok := p.tryStart(now, w); ok {
			p.queue.remove(w)
			return pl, true
		}
		if p.opening(w.Demand) {
			continue
		}
		if !w.blocked {
			w.blocked, w.blockedAt = true, now
		}
		if now-w.blockedAt < p.cfg.Overtake {
			if pl, ok := p.overtake(); ok {
				return pl, true
			}
		}
		p.evictFor(w.MemoryMB)
		return Placement{}, false
	}
	p.ready = p.ready[:0]
	return Placement{}, false
}

// overtake serves a waiting invocation whose key has gained warm capacity.
func (p *Pool) overtake() (Placement, bool) {
	for len(p.ready) > 0 {
		key := p.ready[0]
		w := p.queue.firstOf(key)
		if w == nil {
			p.ready = p.ready[1:]
			continue
		}
		pl, ok := p.reuse(w.Demand)
		if !ok {
			p.ready = p.ready[1:]
			continue
		}
		p.queue.remove(w)
		return pl, true
	}
	return Placement{}, false
}

// tryStart tries a warm container, a prewarmed one and a new one, in this order.
func (p *Pool) tryStart(now time.Duration, w *waiting) (Placement, bool) {
	if pl, ok := p.reuse(w.Demand); ok {
		return pl, true
	}
	if p.opening(w.Demand) {
		return Placement{}, false
	}
	if pl, ok := p.takePrewarm(now, w.Demand); ok {
		return pl, true
	}
	if p.used+w.MemoryMB > p.cfg.MemoryMB {
		return Placement{}, false
	}
	return p.create(w.Demand), true
}

// reuse picks the most recently used container that is warm for the key.
func (p *Pool) reuse(d Demand) (Placement, bool) {
	s := p.capacity(d.Key)
	if s == nil {
		return Placement{}, false
	}
	pl := Placement{Invocation: d.Invocation, Slot: s.id, Start: Warm, Resume: s.state == paused, First: s.active == 0}
	p.unlist(s)
	s.state = running
	s.occupy(d)
	p.touch(s)
	return pl, true
}

// opening reports whether a container of this key will soon take the activation: a container
// that is being paused, or a new container that may run several activations at once.
func (p *Pool) opening(d Demand) bool {
	return slices.ContainsFunc(p.warm[d.Key], func(s *slot) bool {
		return s.state == pausing && !s.doomed || s.state == warmingUp && s.active < s.concurrency
	})
}

func (p *Pool) create(d Demand) Placement {
	s := p.add(d.MemoryMB)
	p.adopt(s, d)
	p.countCold(d)
	return Placement{Invocation: d.Invocation, Slot: s.id, Start: Cold, First: true}
}

// adopt gives a slot to a key; it stays with the key until it is removed.
func (p *Pool) adopt(s *slot, d Demand) {
	s.key, s.kind, s.cell, s.concurrency = d.Key, d.Kind, nil, d.Concurrency
	s.state = warmingUp
	s.occupy(d)
	p.warm[d.Key] = append(p.warm[d.Key], s)
}

func (p *Pool) add(memoryMB int) *slot {
	p.next++
	s := &slot{id: p.next, memoryMB: memoryMB}
	p.slots[s.id] = s
	p.used += memoryMB
	return s
}

// evictFor orders the removal of idle containers, longest idle first, and then of prewarmed
// ones, until need MiB are free or being freed. If all of them together do not suffice, it
// evicts nothing.
func (p *Pool) evictFor(need int) {
	lack := p.used - p.freeing + need - p.cfg.MemoryMB
	if lack <= 0 {
		return
	}
	for _, s := range p.victims(lack) {
		p.remove(s)
	}
}

// victims lists containers to evict that free at least lack MiB, or nothing.
func (p *Pool) victims(lack int) []*slot {
	var picked []*slot
	take := func(l *slotQueue) {
		for s := range l.elements() {
			if lack <= 0 {
				return
			}
			picked = append(picked, s)
			lack -= s.memoryMB
		}
	}
	take(&p.paused)
	take(&p.idle)
	for _, c := range p.cells {
		take(&c.started)
	}
	if lack > 0 {
		return nil
	}
	return picked
}

// remove orders the removal of a slot that no activation runs in.
func (p *Pool) remove(s *slot) {
	p.unlist(s)
	p.forget(s)
	s.state = removing
	p.freeing += s.memoryMB
	p.orders = append(p.orders, Order{Do: Remove, Slot: s.id})
}

// Orders returns the orders since the last call, in the order in which they were decided. The
// slice is valid until the next call.
func (p *Pool) Orders() []Order {
	out := p.orders
	p.orders = nil
	return out
}
