package container

import (
	"container/list"
	"slices"
	"time"
)

// state is where a slot is in its life.
type state int

// A slot's life: started or warmingUp first; running while an activation runs in it;
// then ready, pausing, paused; removing at last. A prewarmed slot waits in
// starting and started until an action adopts it.
const (
	starting  state = iota // prewarm, being created
	started                // prewarm, waits for an action
	warmingUp              // belongs to an action, not initialised yet
	running                // initialised and occupied
	ready                  // initialised and not occupied
	pausing                // the pause was ordered
	paused
	removing
)

// slot is one container.
type slot struct {
	id          SlotID
	key         string // "" until an action adopts it
	kind        string
	cell        *cell // of a prewarmed one
	memoryMB    int
	concurrency int
	active      int
	state       state
	doomed      bool          // remove as soon as no activation runs in it
	pinned      bool          // reserved by its owner: not idle even if nothing runs in it
	kept        bool          // it was pinned before: IdleTimeout does not remove it
	since       time.Duration // when it entered ready, paused or started

	in      *slotQueue // nil: none
	element *list.Element
}

// occupy counts a placement: an activation that runs in the slot, or a pin.
func (s *slot) occupy(d Demand) {
	if d.Pin {
		s.pinned, s.kept = true, true
		return
	}
	s.active++
}

// occupied reports whether an activation runs in the slot or the slot is pinned.
func (s *slot) occupied() bool { return s.active > 0 || s.pinned }

// slotQueue is a queue of slots with the sum of their memory.
type slotQueue struct {
	fifo[*slot]
	memoryMB int
}

func (l *slotQueue) push(s *slot) {
	s.in, s.element = l, l.PushBack(s)
	l.memoryMB += s.memoryMB
}

// unlist takes a slot out of the queue it is in, if any.
func (p *Pool) unlist(s *slot) {
	if s.in == nil {
		return
	}
	s.in.Remove(s.element)
	s.in.memoryMB -= s.memoryMB
	s.in, s.element = nil, nil
}

// capacity finds the most recently used slot of a key that can take one more run. A
// slot whose pause is under way cannot: its answer comes first.
func (p *Pool) capacity(key string) *slot {
	for _, s := range slices.Backward(p.warm[key]) {
		switch s.state {
		case running, ready, paused:
			if s.active < s.concurrency && !s.doomed {
				return s
			}
		}
	}
	return nil
}

// touch makes a slot the most recently used of its key.
func (p *Pool) touch(s *slot) {
	all := p.warm[s.key]
	i := slices.Index(all, s)
	copy(all[i:], all[i+1:])
	all[len(all)-1] = s
}

// forget takes a slot away from its key: no further activation is placed in it.
func (p *Pool) forget(s *slot) {
	left := slices.DeleteFunc(p.warm[s.key], func(have *slot) bool { return have == s })
	p.warm[s.key] = left
	if len(left) == 0 {
		delete(p.warm, s.key)
	}
}
