package container

import "time"

// Reserve takes memory for a container that lives outside of the pool, on a GPU.
// When it is short, idle containers are ordered out and the caller asks again
// after the next Gone. Waiting activations come first: nothing is given while
// one of them waits for memory.
func (p *Pool) Reserve(memoryMB int) bool {
	if w := p.queue.front; w != nil && w.blocked {
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

// Release gives memory back that Claim took.
func (p *Pool) Release(now time.Duration, memoryMB int) {
	if memoryMB > p.reserved {
		panic("container: more memory given back than was claimed")
	}
	p.used -= memoryMB
	p.reserved -= memoryMB
	p.refill(now, nil)
}

// Shortage is the memory that the first blocked activation still misses when
// every idle container is removed. When it is positive, claimed memory that is
// idle should be given back.
func (p *Pool) Shortage() int {
	for w := p.queue.front; w != nil; w = w.after {
		if !w.blocked {
			continue
		}
		spare := p.freeing + p.idle.memoryMB + p.paused.memoryMB
		for _, c := range p.cells {
			spare += c.started.memoryMB
		}
		return max(0, p.used-spare+w.MemoryMB-p.cfg.MemoryMB)
	}
	return 0
}

// Free is the memory that no container holds, in MiB.
func (p *Pool) Free() int { return p.cfg.MemoryMB - p.used }

// EvictIdle orders idle containers out so that a claim of that memory can succeed
// later, and reports whether that is going to be so.
func (p *Pool) EvictIdle(memoryMB int) bool {
	if w := p.queue.front; w != nil && w.blocked {
		return false
	}
	p.evictFor(memoryMB)
	return p.used-p.freeing+memoryMB <= p.cfg.MemoryMB
}

// Available is the memory that a claim can have now, and what idle containers hold
// that could be claimed when they are gone, in MiB. While an activation waits
// for memory there is nothing to claim: it comes first, and what is spare is not
// known before it has its place.
func (p *Pool) Available() (free, spare int) {
	if w := p.queue.front; w != nil && w.blocked {
		return 0, p.cfg.MemoryMB
	}
	spare = p.freeing + p.idle.memoryMB + p.paused.memoryMB
	for _, c := range p.cells {
		spare += c.started.memoryMB
	}
	return p.Free(), spare
}
