package container

import "time"

// Reserve takes memory for a container that lives outside of the pool, on a GPU.
// When it is short, idle containers are ordered out and the caller asks again
// after the next Gone. Waiting activations come first: nothing is given while
// the first one waits for memory.
func (p *Pool) Reserve(memoryMB int) bool {
	if p.blocked() {
		return false
	}
	if p.used+memoryMB <= p.cfg.MemoryMB {
		p.used += memoryMB
		p.reserved += memoryMB
		return true
	}
	p.evictFor(memoryMB)
	return false
}

// Reserved is the memory that Reserve took and that was not given back.
func (p *Pool) Reserved() int { return p.reserved }

// Release gives memory back that Reserve took.
func (p *Pool) Release(now time.Duration, memoryMB int) {
	if memoryMB > p.reserved {
		panic("container: more memory given back than was reserved")
	}
	p.used -= memoryMB
	p.reserved -= memoryMB
	p.refill(now, nil)
}

// SetAside names the memory that the caller of Reserve waits for, 0 for none. Until it has
// that memory no prewarmed container is started in it.
func (p *Pool) SetAside(memoryMB int) { p.setAside = memoryMB }

// Fits reports whether one more container with memoryMB fits after every waiting activation
// has a container, idle containers are evicted, and outside users have returned memory as
// Needed asks.
func (p *Pool) Fits(memoryMB, returned int) bool {
	return memoryMB > 0 && p.used-p.spare()-returned+p.queue.memoryMB+memoryMB <= p.cfg.MemoryMB
}

// EvictIdle orders the removal of idle containers so that a later Reserve of memoryMB can
// succeed. It is a no-op while the first waiting activation waits for memory.
func (p *Pool) EvictIdle(memoryMB int) {
	if !p.blocked() {
		p.evictFor(memoryMB)
	}
}

// Memory describes the memory that outside users may reserve and should return, in MiB.
type Memory struct {
	Free   int // Reserve can take this much now
	Spare  int // more that Reserve could take after the idle containers are gone
	Needed int // shortfall of the first activation that waits for memory, after that
}

// Memory returns the memory for users outside the pool. While the first waiting activation
// waits for memory, Free is zero, because the activation comes first. Spare is then the
// pool's whole memory, because the rest is not known before that activation has started.
func (p *Pool) Memory() Memory {
	m := Memory{Free: p.cfg.MemoryMB - p.used, Spare: p.spare()}
	if p.blocked() {
		m.Free, m.Spare = 0, p.cfg.MemoryMB
	}
	for w := range p.queue.elements() {
		if w.blocked {
			m.Needed = max(0, p.used-p.spare()+w.MemoryMB-p.cfg.MemoryMB)
			break
		}
	}
	return m
}

// blocked reports whether the first waiting activation waits for memory.
func (p *Pool) blocked() bool {
	w := p.queue.first()
	return w != nil && w.blocked
}

// spare returns the memory of idle, prewarmed and disappearing containers.
func (p *Pool) spare() int {
	n := p.freeing + p.idle.memoryMB + p.paused.memoryMB
	for _, c := range p.cells {
		n += c.started.memoryMB
	}
	return n
}
