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

// Release gives memory back that Reserve took.
func (p *Pool) Release(now time.Duration, memoryMB int) {
	if memoryMB > p.reserved {
		panic("container: more memory given back than was reserved")
	}
	p.used -= memoryMB
	p.reserved -= memoryMB
	p.refill(now, nil)
}

// Shortage is the memory that the first blocked activation still lacks when
// every idle container is removed. When it is positive, reserved memory that is
// idle should be given back.
func (p *Pool) Shortage() int {
	for w := range p.queue.all() {
		if w.blocked {
			return max(0, p.used-p.spare()+w.MemoryMB-p.cfg.MemoryMB)
		}
	}
	return 0
}

// Free is the memory that no container has, in MiB.
func (p *Pool) Free() int { return p.cfg.MemoryMB - p.used }

// EvictIdle orders idle containers out so that a Reserve of that memory can succeed
// later, and reports whether it will.
func (p *Pool) EvictIdle(memoryMB int) bool {
	if p.blocked() {
		return false
	}
	p.evictFor(memoryMB)
	return p.used-p.freeing+memoryMB <= p.cfg.MemoryMB
}

// Available is the memory that Reserve can take now, and what it could take when the
// idle containers are gone, in MiB. While an activation waits for memory nothing can
// be reserved: it comes first, and what is spare is known when it has a container.
func (p *Pool) Available() (free, spare int) {
	if p.blocked() {
		return 0, p.cfg.MemoryMB
	}
	return p.Free(), p.spare()
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
