package controller

import (
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// flight is an activation between its message and its last ack.
type flight struct {
	invoker int
	// answers gets the result: a record, or nil when only the database has it.
	// Its buffer of one: the first answer counts, a second is dropped.
	answers chan *activation.Record
	forced  *time.Timer
	waited  bool // a caller reads answers
	freed   bool // the ack that frees the slot has come
}

// flights are all of them. An activation leaves when its slot is free and no
// caller waits for its result: acks come in either order.
type flights struct {
	mu   sync.Mutex
	byID map[activation.ID]*flight
}

func newFlights() *flights { return &flights{byID: map[activation.ID]*flight{}} }

// add registers an activation. After the given time without an ack, giveUp is
// called.
func (f *flights) add(id activation.ID, invoker int, waited bool, after time.Duration, giveUp func()) *flight {
	one := &flight{invoker: invoker, waited: waited, answers: make(chan *activation.Record, 1)}
	one.forced = time.AfterFunc(after, giveUp)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byID[id] = one
	return one
}

// answer hands a result to the caller that waits.
func (f *flights) answer(id activation.ID, r *activation.Record) {
	f.mu.Lock()
	one := f.byID[id]
	f.mu.Unlock()
	if one == nil {
		return
	}
	select {
	case one.answers <- r:
	default:
	}
}

// free records that an activation's slot is free. It returns which invoker it
// was on, and whether this was news.
func (f *flights) free(id activation.ID) (invoker int, news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byID[id]
	if one == nil || one.freed {
		return 0, false
	}
	one.freed = true
	one.forced.Stop()
	f.tidy(id, one)
	return one.invoker, true
}

// forget records that no caller waits for the result any more.
func (f *flights) forget(id activation.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.byID[id]; one != nil {
		one.waited = false
		f.tidy(id, one)
	}
}

func (f *flights) tidy(id activation.ID, one *flight) {
	if one.freed && !one.waited {
		delete(f.byID, id)
	}
}

// drop takes back an activation that was not sent after all.
func (f *flights) drop(id activation.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.byID[id]; one != nil {
		one.forced.Stop()
		delete(f.byID, id)
	}
}

// count is how many slots are taken.
func (f *flights) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, one := range f.byID {
		if !one.freed {
			n++
		}
	}
	return n
}

// clear stops all timers, at the end.
func (f *flights) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, one := range f.byID {
		one.forced.Stop()
		delete(f.byID, id)
	}
}
