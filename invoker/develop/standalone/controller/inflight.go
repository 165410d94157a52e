package controller

import (
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// inFlight are the activations that invokers have: the slots that they take, and
// the callers that wait for results. The acks that end the two come in either
// order.
type inFlight struct {
	mu      sync.Mutex
	slots   map[activation.ID]slot
	callers map[activation.ID]chan *activation.Record
}

// slot is capacity of an invoker that an activation takes until its last ack.
type slot struct {
	invoker int
	forced  *time.Timer
}

func newInFlight() *inFlight {
	return &inFlight{slots: map[activation.ID]slot{}, callers: map[activation.ID]chan *activation.Record{}}
}

// add registers an activation. After the given time without an ack, giveUp is
// called. If a caller waits, the channel gets its result: a record, or nil when
// only the database has it. The first answer counts, a second is dropped.
func (f *inFlight) add(id activation.ID, invoker int, waited bool, after time.Duration, giveUp func()) <-chan *activation.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots[id] = slot{invoker, time.AfterFunc(after, giveUp)}
	answers := make(chan *activation.Record, 1)
	if waited {
		f.callers[id] = answers
	}
	return answers
}

// answer sends a result to the caller that waits.
func (f *inFlight) answer(id activation.ID, r *activation.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.callers[id] <- r: // nil, and so never ready, without a caller
	default:
	}
}

// free frees the slot of an activation. It returns the invoker of the slot, and
// whether it was taken.
func (f *inFlight) free(id activation.ID) (invoker int, taken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, taken := f.slots[id]
	if taken {
		s.forced.Stop()
		delete(f.slots, id)
	}
	return s.invoker, taken
}

// forget removes the caller of an activation.
func (f *inFlight) forget(id activation.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.callers, id)
}

// clear stops all timers, at the end.
func (f *inFlight) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.slots {
		s.forced.Stop()
	}
	clear(f.slots)
}
