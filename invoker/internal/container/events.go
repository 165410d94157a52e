package container

import (
	"fmt"
	"time"
)

// Started reports that a prewarmed container is up.
func (p *Pool) Started(now time.Duration, id SlotID) {
	s := p.slot(id)
	if s.state != starting {
		return // adopted or doomed meanwhile
	}
	s.state, s.since = started, now
	c := s.cell
	c.starting--
	c.failed = false
	if !c.missing {
		c.pause = 0
	}
	if s.doomed {
		p.remove(s)
		return
	}
	c.started.push(s)
}

// Warmed reports that a container has been initialised: if its action allows
// several activations at once, the next ones may join the first.
func (p *Pool) Warmed(_ time.Duration, id SlotID) {
	s := p.slot(id)
	if s.state != warmingUp {
		return
	}
	s.state = running
	p.offer(s)
}

// Done reports that an activation has left its container, logs included. With
// keep false the container takes no further activation and is removed once it is empty:
// a status of 2 or 3 demands it.
func (p *Pool) Done(now time.Duration, id SlotID, keep bool) {
	s := p.slot(id)
	if s.active <= 0 {
		panic(fmt.Sprintf("container: done in slot %d without an activation", id))
	}
	s.active--
	p.leave(now, s, keep)
}

// Pinned reports whether a container is pinned.
func (p *Pool) Pinned(id SlotID) bool {
	s, ok := p.slots[id]
	return ok && s.pinned
}

// Unpin ends a pin. If keep is false, the container is removed as soon as no activation
// runs in it, even if it was not pinned. Unknown ids are ignored.
func (p *Pool) Unpin(now time.Duration, id SlotID, keep bool) {
	s, ok := p.slots[id]
	switch {
	case ok && s.pinned:
		s.pinned = false
		p.leave(now, s, keep)
	case !keep:
		p.Failed(id)
	}
}

// leave updates a slot after an activation has left it or its pin has ended.
func (p *Pool) leave(now time.Duration, s *slot, keep bool) {
	if !keep {
		s.doomed = true
		p.forget(s)
	}
	switch {
	case s.occupied():
		if !s.doomed {
			p.offer(s)
		}
	case s.doomed:
		p.remove(s)
	default:
		s.state, s.since = ready, now
		p.idle.push(s)
		p.touch(s)
		p.offer(s)
	}
}

// Failed reports that a container could not be created, or died. No further activation
// is placed in it; the slot's memory is free when Gone follows.
func (p *Pool) Failed(id SlotID) {
	s, ok := p.slots[id]
	if !ok || s.doomed || s.state == removing {
		return
	}
	s.doomed = true
	p.forget(s)
	if !s.occupied() && s.state != starting {
		p.remove(s)
	}
}

// Paused reports the outcome of a Pause order. If the pause failed, the container is removed.
// The container may have died and be gone already.
func (p *Pool) Paused(now time.Duration, id SlotID, ok bool) {
	s, known := p.slots[id]
	if !known || s.state != pausing {
		return
	}
	if !ok || s.doomed {
		p.remove(s)
		return
	}
	s.state, s.since = paused, now
	p.paused.push(s)
	p.offer(s)
}

// Gone reports that a container does not exist any more and its memory is
// free. It answers Remove, and CreatePrewarm when creation failed.
func (p *Pool) Gone(now time.Duration, id SlotID) {
	s, ok := p.slots[id]
	if !ok {
		return
	}
	if s.occupied() {
		panic(fmt.Sprintf("container: slot %d gone with %d running, pinned: %t", id, s.active, s.pinned))
	}
	p.unlist(s)
	p.forget(s)
	if s.state == removing {
		p.freeing -= s.memoryMB
	}
	p.used -= s.memoryMB
	delete(p.slots, id)
	p.refill(now, s)
}

// offer lets waiting activations of a key know that it gained capacity.
func (p *Pool) offer(s *slot) {
	if p.queue.firstOf(s.key) != nil {
		p.ready = append(p.ready, s.key)
	}
}

func (p *Pool) slot(id SlotID) *slot {
	s, ok := p.slots[id]
	if !ok {
		panic(fmt.Sprintf("container: unknown slot %d", id))
	}
	return s
}

// Tick carries out due work: pauses, removals, and the expiry of prewarmed containers.
func (p *Pool) Tick(now time.Duration) {
	p.pauseIdle(now)
	p.removeExpired(now)
	p.prewarmTick(now)
}

func (p *Pool) pauseIdle(now time.Duration) {
	if p.cfg.PauseGrace == Never {
		return
	}
	for s := p.idle.first(); s != nil && now-s.since >= p.cfg.PauseGrace; s = p.idle.first() {
		p.pause(s)
	}
}

func (p *Pool) pause(s *slot) {
	p.unlist(s)
	s.state = pausing
	p.orders = append(p.orders, Order{Do: Pause, Slot: s.id})
}

// PauseNow orders the pause of a container that is idle, before PauseGrace is over.
// It reports whether it did.
func (p *Pool) PauseNow(id SlotID) bool {
	s, ok := p.slots[id]
	if !ok || s.state != ready {
		return false
	}
	p.pause(s)
	return true
}

func (p *Pool) removeExpired(now time.Duration) {
	for s := p.nextExpiry(); s != nil && now-s.since >= p.cfg.IdleTimeout; s = p.nextExpiry() {
		p.remove(s)
	}
}

// nextExpiry is the container that IdleTimeout removes next, or nil.
func (p *Pool) nextExpiry() *slot {
	if p.cfg.IdleTimeout == Never {
		return nil
	}
	for s := range p.paused.elements() {
		if !s.kept {
			return s
		}
	}
	return nil
}

// Deadline gives the next time at which Tick or Next would change something
// although nothing else happens; false when there is none.
func (p *Pool) Deadline() (time.Duration, bool) {
	var at time.Duration
	var any bool
	sooner := func(t time.Duration) {
		if !any || t < at {
			at, any = t, true
		}
	}
	if s := p.idle.first(); s != nil && p.cfg.PauseGrace != Never {
		sooner(s.since + p.cfg.PauseGrace)
	}
	if s := p.nextExpiry(); s != nil {
		sooner(s.since + p.cfg.IdleTimeout)
	}
	if p.pass != Never {
		sooner(p.pass)
	}
	for _, c := range p.cells {
		if c.missing {
			sooner(c.again)
		}
	}
	return at, any
}
