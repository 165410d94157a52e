package container

import "time"

// state is where a slot is in its life.
type state int

// A slot's life: started or warmingUp first; running while anyone runs in it;
// then ready, pausing, paused; removing at last. A prewarmed slot waits in
// starting and started until an action adopts it.
const (
	starting  state = iota // prewarm, being created
	started                // prewarm, waits for an action
	warmingUp              // belongs to an action, not initialised yet
	running                // initialised, active > 0
	ready                  // initialised, active == 0
	pausing                // the pause was ordered
	paused
	removing
)

// slot is one container. While it is in a list, list fields link it.
type slot struct {
	id          SlotID
	key         string // "" until an action adopts it
	kind        string
	memoryMB    int
	concurrency int
	active      int
	state       state
	doomed      bool // remove as soon as no activation runs in it
	lastUsed    time.Duration
	since       time.Duration // when it entered ready, paused or started

	in            *list
	before, after *slot
}

// list is a first-in first-out of slots linked through themselves, so that
// leaving it costs the same from any place.
type list struct {
	front, back *slot
	len         int
	memoryMB    int
}

func (l *list) push(s *slot) {
	s.in, s.before, s.after = l, l.back, nil
	if l.back == nil {
		l.front = s
	} else {
		l.back.after = s
	}
	l.back = s
	l.len++
	l.memoryMB += s.memoryMB
}

// unlist takes a slot out of the list it is in, if any.
func (p *Pool) unlist(s *slot) {
	l := s.in
	if l == nil {
		return
	}
	if s.before == nil {
		l.front = s.after
	} else {
		s.before.after = s.after
	}
	if s.after == nil {
		l.back = s.before
	} else {
		s.after.before = s.before
	}
	s.in, s.before, s.after = nil, nil, nil
	l.len--
	l.memoryMB -= s.memoryMB
}

// warmSet holds the slots of one key, the most recently used last.
type warmSet struct{ slots []*slot }

// capacity finds the most recently used slot that can take one more run. A
// slot whose pause is under way cannot: its answer comes first.
func (b *warmSet) capacity() *slot {
	for i := len(b.slots) - 1; i >= 0; i-- {
		s := b.slots[i]
		switch s.state {
		case running, ready, paused:
			if s.active < s.concurrency && !s.doomed {
				return s
			}
		}
	}
	return nil
}

// touch moves a slot to the most recently used end.
func (b *warmSet) touch(s *slot) {
	for i, have := range b.slots {
		if have == s {
			copy(b.slots[i:], b.slots[i+1:])
			b.slots[len(b.slots)-1] = s
			return
		}
	}
}

// forget takes a slot away from its key: no further activation is placed in it.
func (p *Pool) forget(s *slot) {
	b := p.warm[s.key]
	if b == nil {
		return
	}
	for i, have := range b.slots {
		if have == s {
			b.slots = append(b.slots[:i], b.slots[i+1:]...)
			break
		}
	}
	if len(b.slots) == 0 {
		delete(p.warm, s.key)
	}
}
