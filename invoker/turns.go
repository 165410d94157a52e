package invoker

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// turns says whose turn it is to decide. Whoever posts an event while nobody
// decides does it himself, once: so an activation that finds its container idle
// is sent off by the goroutine that brought it, and no other is woken. What
// comes meanwhile is left to him who decides, and then to the loop, so that no
// worker is kept for what others post.
type turns struct {
	timer *time.Timer   // when something changes by itself
	more  chan struct{} // capacity 1: the loop has the turn
	armed time.Duration // what timer is set to; of whoever has the turn

	mu      sync.Mutex
	taken   bool // somebody decides; so does nobody before the loop begins
	over    bool // nothing is decided any more
	waiting []event
	spare   []event // its former array
}

func newTurns() turns { return turns{more: make(chan struct{}, 1), taken: true} }

// put has an event wait. first tells that the turn is the caller's now.
func (t *turns) put(e event) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.waiting = append(t.waiting, e)
	first = !t.taken
	t.taken = true
	return first
}

// give ends a turn if nothing waits.
func (t *turns) give() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = len(t.waiting) > 0
	return !t.taken
}

// post tells of an event, and decides what follows from it unless somebody is
// at that. Its caller holds no lock.
func (d *dispatcher) post(e event) {
	if d.turns.put(e) {
		d.turn()
		if !d.turns.give() {
			d.turns.more <- struct{}{}
		}
	}
}

// tell has the loop hear of an event. The caller may hold locks, and the loop
// may have ended.
func (d *dispatcher) tell(e event) {
	if d.turns.put(e) {
		d.turns.more <- struct{}{}
	}
}

// crowded tells whether so much waits that news of which newer follows can be
// left out.
func (d *dispatcher) crowded() bool {
	const many = 256
	d.turns.mu.Lock()
	defer d.turns.mu.Unlock()
	return len(d.turns.waiting) >= many
}

// loop decides what nobody else does, until idle is closed: then nobody works
// any more.
func (d *dispatcher) loop(idle <-chan struct{}) {
	d.turns.timer = time.NewTimer(time.Hour)
	defer d.turns.timer.Stop()
	d.turns.armed = d.clock() + time.Hour
	d.settleTurns()
	for {
		select {
		case <-d.turns.more:
			d.settleTurns()
		case <-d.turns.timer.C:
			if d.turns.put(tick{}) {
				d.settleTurns()
			}
		case <-idle:
			d.turns.mu.Lock()
			d.turns.over = true
			d.turns.mu.Unlock()
			return
		}
	}
}

// settleTurns decides until nothing waits.
func (d *dispatcher) settleTurns() {
	for d.turn(); !d.turns.give(); {
		d.turn()
	}
}

// turn applies what waits and decides, so that one pass over the cores serves a
// burst. A core that panics ends the process, whoever has the turn: a worker
// recovers its own panics and would go on with a core that is half way.
func (d *dispatcher) turn() {
	defer func() {
		if p := recover(); p != nil {
			text := fmt.Sprintf("%v\n\n%s", p, debug.Stack())
			go func() { panic(text) }()
			select {}
		}
	}()
	t := &d.turns
	t.mu.Lock()
	events := t.waiting
	t.waiting, t.spare = t.spare[:0], nil
	t.mu.Unlock()
	now := d.clock()
	for _, e := range events {
		e.apply(d, now)
	}
	d.settle(now)
	d.arm(now)
	d.answer()
	clear(events)
	t.spare = events[:0]
}

// tick is when the timer says that something may have changed.
type tick struct{}

func (tick) apply(d *dispatcher, now time.Duration) {
	d.turns.armed = 0
	d.pool.Tick(now)
	d.gpus.tick(now)
}

// arm has the timer tick at the cores' next deadline. A deadline that has gone
// away costs one look in vain.
func (d *dispatcher) arm(now time.Duration) {
	next := now + time.Hour
	if at, ok := d.pool.Deadline(); ok {
		next = min(next, at)
	}
	if at, ok := d.gpus.deadline(); ok {
		next = min(next, at)
	}
	if t := &d.turns; t.armed <= now || next < t.armed {
		t.armed = next
		t.timer.Reset(max(next-now, 0))
	}
}
