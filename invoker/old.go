package invoker

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Retention is for how long the feed's topic keeps a message, at least: until it
// has that age, or until so many bytes came after it. 0 is for ever.
type Retention struct {
	Time  time.Duration
	Bytes int64
}

// old lists the accepted activations whose messages only the feed has, in the
// order in which they came. What gets as old as half of the topic's retention is
// parked, whatever it waits for or does: were this process to end then, its
// message might not be there any more.
type old struct {
	keeps Retention
	shelf Shelf
	clock func() time.Duration

	mu          sync.Mutex
	first, last *ticket
	read        int64 // bytes of messages so far
}

// aged is a ticket's place in the list.
type aged struct {
	listed       bool
	before, next *ticket
	read         int64 // bytes that came before it
}

// newOld is nil where nothing grows old.
func newOld(s Settings, shelf Shelf, clock func() time.Duration) *old {
	if shelf == nil || s.Retention == (Retention{}) {
		return nil
	}
	return &old{keeps: s.Retention, shelf: shelf, clock: clock}
}

// add lists a ticket.
func (o *old) add(t *ticket) {
	if o == nil || t.unlisted {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t.age = aged{listed: true, before: o.last, read: o.read}
	o.read += size(t.Message)
	if o.last != nil {
		o.last.age.next = t
	} else {
		o.first = t
	}
	o.last = t
}

// remove takes a ticket off the list, if it is there.
func (o *old) remove(t *ticket) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(t)
}

func (o *old) drop(t *ticket) {
	a := t.age
	if !a.listed {
		return
	}
	t.age = aged{}
	if a.before != nil {
		a.before.age.next = a.next
	} else {
		o.first = a.next
	}
	if a.next != nil {
		a.next.age.before = a.before
	} else {
		o.last = a.before
	}
}

// Bounds of the time between looks.
const (
	lookOften  = 100 * time.Millisecond
	lookSeldom = 10 * time.Second
)

// watch parks what grows old, until ctx ends.
func (o *old) watch(ctx context.Context) {
	if o == nil {
		return
	}
	every := min(max(o.keeps.Time/20, lookOften), lookSeldom)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for o.park(o.due(every)) {
		}
	}
}

// due lists the oldest of those that would be too old at the next look.
func (o *old) due(every time.Duration) (all []*ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for t := o.first; t != nil && len(all) < parkTogether; t = t.age.next {
		late := o.keeps.Time > 0 && 2*(o.clock()+every-t.accepted) >= o.keeps.Time
		behind := o.keeps.Bytes > 0 && 2*(o.read-t.age.read) >= o.keeps.Bytes
		if !late && !behind {
			break
		}
		all = append(all, t)
	}
	return all
}

// park has the feed let go of those whose messages are on the shelf, and tells
// whether there may be more. The others are tried again at the next look.
func (o *old) park(all []*ticket) bool {
	if len(all) == 0 {
		return false
	}
	ids, texts := make([]activation.ID, len(all)), make([][]byte, len(all))
	for i, t := range all {
		ids[i], texts[i] = t.ActivationID, t.Message.Encode()
	}
	well := true
	for i, err := range o.shelf.Park(ids, texts) {
		if err != nil {
			well = false
			continue
		}
		o.remove(all[i])
		all[i].letGo()
	}
	return well && len(all) == parkTogether
}
