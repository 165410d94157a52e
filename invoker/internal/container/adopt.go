package container

import (
	"slices"
	"time"
)

// Adopted is a container of an earlier process that is adopted.
type Adopted struct {
	Key         string // "" is a prewarmed one, which no action has used
	Kind        string
	MemoryMB    int
	Concurrency int
	Paused      bool
	Idle        time.Duration // for how long it has rested
	Kept        bool          // it was pinned: IdleTimeout does not remove it
}

// Adopt takes over an idle container that another process created. It returns false if there
// is not enough memory for it. Call it before the first Enqueue, longest idle container first.
func (p *Pool) Adopt(now time.Duration, h Adopted) (SlotID, bool) {
	if h.Key == "" {
		return p.adoptPrewarmed(now, h)
	}
	if h.MemoryMB <= 0 || h.Concurrency < 1 || p.used+h.MemoryMB > p.cfg.MemoryMB && !p.giveUpPrewarm(h.MemoryMB) {
		return 0, false
	}
	s := p.add(h.MemoryMB)
	p.adopt(s, Demand{Key: h.Key, Kind: h.Kind, Concurrency: h.Concurrency})
	s.active, s.kept, s.since = 0, h.Kept, now-h.Idle
	s.state = ready
	list := &p.idle
	if h.Paused {
		s.state, list = paused, &p.paused
	}
	list.push(s)
	return s.id, true
}

// adoptPrewarmed uses an adopted container in place of a prewarmed one that is still to be
// created.
func (p *Pool) adoptPrewarmed(now time.Duration, h Adopted) (SlotID, bool) {
	i := slices.IndexFunc(p.orders, func(o Order) bool {
		return o.Do == CreatePrewarm && o.Kind == h.Kind && o.MemoryMB == h.MemoryMB
	})
	if h.Paused || i < 0 { // a prewarmed one is never paused
		return 0, false
	}
	id := p.orders[i].Slot
	p.orders = slices.Delete(p.orders, i, i+1)
	p.Started(now, id)
	return id, true
}

// giveUpPrewarm withdraws orders for prewarmed containers until memoryMB MiB are free, because
// a warm container is worth more.
func (p *Pool) giveUpPrewarm(memoryMB int) bool {
	for i := len(p.orders) - 1; i >= 0 && p.used+memoryMB > p.cfg.MemoryMB; i-- {
		o := p.orders[i]
		if o.Do != CreatePrewarm {
			continue
		}
		s := p.slot(o.Slot)
		p.orders = slices.Delete(p.orders, i, i+1)
		s.cell.starting--
		s.cell.missing = true // it is made when the memory is free
		p.used -= s.memoryMB
		delete(p.slots, s.id)
	}
	return p.used+memoryMB <= p.cfg.MemoryMB
}

// AddRemoving counts the memory of another process' container that is being removed. A call of
// Gone must follow. If there is less free memory than the container has, only the free memory
// is counted.
func (p *Pool) AddRemoving(memoryMB int) SlotID {
	p.giveUpPrewarm(memoryMB)
	s := p.add(min(max(memoryMB, 0), p.cfg.MemoryMB-p.used))
	s.state, s.doomed = removing, true
	p.freeing += s.memoryMB
	return s.id
}

// Adoptable lists the containers that the next process may adopt: nothing runs in
// them, and they are not being removed.
func (p *Pool) Adoptable() []SlotID {
	var ids []SlotID
	for _, l := range []*slotQueue{&p.idle, &p.paused} {
		for s := range l.elements() {
			ids = append(ids, s.id)
		}
	}
	for _, c := range p.cells {
		for s := range c.started.elements() {
			ids = append(ids, s.id)
		}
	}
	return ids
}
