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

// Fits reports whether one more container of that memory has its turn when all that
// waits has containers, and the idle ones are gone, with those outside of the pool
// whose memory is returned when it is Needed.
func (p *Pool) Fits(memoryMB, returned int) bool {
	return memoryMB > 0 && p.used-p.spare()-returned+p.queue.memoryMB+memoryMB <= p.cfg.MemoryMB
}

// EvictIdle orders idle containers out so that a Reserve of that memory can succeed
// later. While the first waiting activation waits for memory it does nothing.
func (p *Pool) EvictIdle(memoryMB int) {
	if !p.blocked() {
		p.evictFor(memoryMB)
	}
}

// Memory is what may be reserved, and what should be given back, in MiB.
type Memory struct {
	Free   int // what Reserve can take now
	Spare  int // what it could take in addition when the idle containers are gone
	Needed int // what the first activation that waits for memory still lacks then
}

// Memory is the pool's memory for what lives outside of it. While the first waiting
// activation waits for memory nothing can be reserved: it comes first, and what is
// spare is known when it has a container.
func (p *Pool) Memory() Memory {
	m := Memory{Free: p.cfg.MemoryMB - p.used, Spare: p.spare()}
	if p.blocked() {
		m.Free, m.Spare = 0, p.cfg.MemoryMB
	}
	for w := range p.queue.all() {
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

// spare is the memory of idle and prewarmed containers, and of those that are being
// removed.
func (p *Pool) spare() int {
	n := p.freeing + p.idle.memoryMB + p.paused.memoryMB
	for _, c := range p.cells {
		n += c.started.memoryMB
	}
	return n
}
