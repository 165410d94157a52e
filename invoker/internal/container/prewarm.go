package container

import (
	"fmt"
	"time"
)

// StemCell asks for prewarmed containers of one kind and memory, as the
// runtimes manifest lists them.
type StemCell struct {
	Kind     string
	MemoryMB int
	Count    int       // kept ready when Reactive is nil; started first in any case
	Reactive *Reactive // nil: the count is constant
}

// Reactive lets the number of prewarmed containers follow the cold starts.
type Reactive struct {
	Min, Max             int
	TTL                  time.Duration // a prewarmed container older than this is removed
	Threshold, Increment int           // per Threshold cold starts, Increment containers
}

// Expiry is the periodic pass over reactive stem cells.
type Expiry struct {
	InitDelay, Interval time.Duration
	Limit               int // containers removed in one pass at most
}

func (c StemCell) validate() error {
	if c.Kind == "" || c.MemoryMB <= 0 || c.Count < 0 {
		return fmt.Errorf("stem cell of kind %q, %d MB, count %d: needs a kind, memory and no negative count",
			c.Kind, c.MemoryMB, c.Count)
	}
	if r := c.Reactive; r != nil && (r.Min < 0 || r.Max < r.Min || r.Threshold <= 0 || r.Increment <= 0) {
		return fmt.Errorf("reactive stem cell of kind %q: min %d, max %d, threshold %d, increment %d",
			c.Kind, r.Min, r.Max, r.Threshold, r.Increment)
	}
	return nil
}

// cell is a stem cell with the number of its containers.
type cell struct {
	StemCell
	started  slotQueue // ready to be taken, oldest first
	starting int
	cold     int // cold starts that it could have served, since the last pass
	seeded   bool
	// Missing containers are usually created at once. After a failure, or while creation is
	// not allowed, the next attempt waits. pause is the length of the last wait.
	missing bool
	failed  bool
	again   time.Duration
	pause   time.Duration
	missed  int // cold starts that it could have served, since the start
	expired int // removed unused, since the start
}

// Bounds of the pause before missing containers are tried again: it doubles
// from the first to the last, so that an image that cannot be started costs a
// container a minute.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// wait postpones the creation of missing containers.
func (c *cell) wait(now time.Duration) {
	c.pause = min(max(2*c.pause, firstPause), lastPause)
	c.missing, c.again = true, now+c.pause
}

// takePrewarm gives a prewarmed container of exactly the kind and memory to an
// action, the oldest first because it expires first, and orders another.
func (p *Pool) takePrewarm(now time.Duration, d Demand) (Placement, bool) {
	if !d.Prewarm {
		return Placement{}, false
	}
	for _, c := range p.cells {
		if c.Kind != d.Kind || c.MemoryMB != d.MemoryMB || c.started.Len() == 0 {
			continue
		}
		s := c.started.first()
		p.unlist(s)
		p.adopt(s, d)
		if p.queue.Len() <= 1 { // otherwise memory goes to waiting activations
			p.fill(now, c, c.want())
		} else if !c.missing {
			c.wait(now)
		}
		return Placement{Invocation: d.Invocation, Slot: s.id, Start: Prewarmed, First: true}, true
	}
	return Placement{}, false
}

func (c *cell) want() int {
	if c.Reactive != nil && c.seeded {
		return c.Reactive.Min
	}
	return c.Count
}

// refill replaces missing prewarmed containers after a container went away.
// Waiting activations come first: memory is not taken from under them.
func (p *Pool) refill(now time.Duration, gone *slot) {
	for _, c := range p.cells {
		if gone != nil && gone.cell == c && (gone.state == starting || gone.doomed) {
			if gone.state == starting {
				c.starting--
			}
			c.failed = true // it is not repeated at once
			c.wait(now)
			continue
		}
		if p.queue.Len() == 0 {
			p.fill(now, c, c.want())
		}
		c.seeded = true
	}
}

// fill orders prewarmed containers up to want, as far as memory allows, unless that
// failed just before.
func (p *Pool) fill(now time.Duration, c *cell, want int) {
	if c.failed && now < c.again {
		return
	}
	for c.started.Len()+c.starting < want && p.used+p.setAside+c.MemoryMB <= p.cfg.MemoryMB {
		s := p.add(c.MemoryMB)
		s.kind, s.cell, s.state = c.Kind, c, starting
		c.starting++
		p.orders = append(p.orders, Order{Do: CreatePrewarm, Slot: s.id, Kind: c.Kind, MemoryMB: c.MemoryMB})
	}
	c.missing = false
}

// retry creates missing containers whose pause is over, unless an activation waits for the
// memory. The others wait again.
func (p *Pool) retry(now time.Duration) {
	for _, c := range p.cells {
		if !c.missing || now < c.again {
			continue
		}
		if p.queue.Len() == 0 {
			p.fill(now, c, c.want())
		}
		if c.started.Len()+c.starting < c.want() {
			c.wait(now)
		}
	}
}

func (p *Pool) countCold(d Demand) {
	if !d.Prewarm {
		return
	}
	for _, c := range p.cells {
		if c.Kind == d.Kind && c.MemoryMB == d.MemoryMB {
			c.cold++
			c.missed++
		}
	}
}

// prewarmTick is the periodic pass: old ones out, then as many as the cold
// starts since the last pass ask for.
func (p *Pool) prewarmTick(now time.Duration) {
	p.retry(now)
	if p.pass == Never || now < p.pass {
		return
	}
	p.pass = now + p.cfg.Expiry.Interval
	left := p.cfg.Expiry.Limit
	for _, c := range p.cells {
		if c.Reactive != nil {
			left = p.expire(now, c, left)
		}
	}
	for _, c := range p.cells {
		p.fill(now, c, c.desired())
		c.cold = 0
	}
}

func (p *Pool) expire(now time.Duration, c *cell, left int) int {
	for s := c.started.first(); s != nil && left > 0 && now-s.since >= c.Reactive.TTL; s = c.started.first() {
		p.remove(s)
		c.expired++
		left--
	}
	return left
}

// desired is clamp(cold starts / threshold * increment, min, max) when there
// were cold starts, the minimum otherwise.
func (c *cell) desired() int {
	r := c.Reactive
	if r == nil {
		return c.Count
	}
	if c.cold == 0 {
		return r.Min
	}
	return min(max(c.cold/r.Threshold*r.Increment, r.Min), r.Max)
}
