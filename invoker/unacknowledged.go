package invoker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// unacknowledged lists the pending activations that are answered and whose acks and record are not all
// safe. The journal is given the end of those that stay on it: the activation is
// delivered again should this process end, and the next one must not report another
// end of it than what its record, or an ack, says already.
type unacknowledged struct {
	mu      sync.Mutex
	all     map[*pending]unackedState
	failing atomic.Bool // the journal did not take the last ones
}

// unackedState is what is known of a pending activation on the list.
type unackedState struct {
	polls uint8
	kept  stage // at which the journal was given its end: nowhere, answered or filed
}

// An ack takes milliseconds and a record some hundred at most when all is well.
// Nothing is written then. What is not safe after so many looks, the journal is
// given: were the process killed, it would otherwise be said to have been
// interrupted.
const (
	unackedPoll    = 100 * time.Millisecond
	pollsForAck    = 2
	pollsForRecord = 10
	// unackedBatch bounds the records in memory at once.
	unackedBatch = 64
)

// add lists a pending activation, unless the next process knows nothing of it or comes to
// the same end by itself.
func (u *unacknowledged) add(p *pending, e ending) {
	if p.unlisted || e.silent {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[*pending]unackedState{}
	}
	u.all[p] = unackedState{}
}

func (u *unacknowledged) remove(p *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, p)
}

// overdue counts a look at each pending activation, and lists those of which the journal does
// not know how they ended though it is time; with all, whatever the time is.
func (u *unacknowledged) overdue(all bool) (late []*pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p, d := range u.all {
		d.polls = min(d.polls+1, pollsForRecord)
		u.all[p] = d
		due := d.polls >= pollsForRecord || d.polls >= pollsForAck && p.unsent.Load() > 0
		if at, _ := p.ended(); (due || all) && d.kept != at {
			late = append(late, p)
		}
	}
	return late
}

// kept records that the journal was given an end, and reports whether the pending activation is
// still on the list.
func (u *unacknowledged) kept(p *pending, at stage, kept bool) (listed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	d, listed := u.all[p]
	if listed && kept {
		d.kept = at
		u.all[p] = d
	}
	return listed
}

// ended gives what a pending activation ended with, and how far it has come since.
func (p *pending) ended() (stage, *activation.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage, p.ending.record
}

// watchUnacknowledged has the journal keep what is unacknowledged for long, until nothing more is
// sent.
func (c *completer) watchUnacknowledged(ctx context.Context) {
	tick := time.NewTicker(unackedPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.keepUnacknowledged(c.unacknowledged.overdue(false))
		case <-ctx.Done():
			return
		}
	}
}

// keepAllUnacknowledged has the journal keep all that is unacknowledged. It is called when nothing more
// is sent.
func (c *completer) keepAllUnacknowledged() { c.keepUnacknowledged(c.unacknowledged.overdue(true)) }

func (c *completer) keepUnacknowledged(all []*pending) {
	var failed int
	var why error
	for len(all) > 0 {
		some := all[:min(len(all), unackedBatch)]
		all = all[len(some):]
		stages, ids, docs := make([]stage, len(some)), make([]activation.ID, len(some)), make([][]byte, len(some))
		for i, p := range some {
			at, rec := p.ended()
			stages[i], ids[i], docs[i] = at, p.ActivationID, rec.Document(c.wall().UnixMilli())
		}
		for i, err := range c.journal.KeepUnacknowledged(ids, docs) {
			if c.unacknowledged.kept(some[i], stages[i], err == nil) && err != nil {
				failed, why = failed+1, err
			}
		}
	}
	if was := c.unacknowledged.failing.Swap(failed > 0); failed > 0 && !was {
		c.log.Error("what activations ended with is not kept for the next process", "activations", failed, "error", why)
	}
}

// repeatEnding sends again how an activation ended in an earlier process. Its
// receivers may know it, and a record that is stored already stays as it is.
func (iv *Invoker) repeatEnding(p *pending, r *activation.Record) {
	iv.log.Info("the end of an activation in an earlier process is told again", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "status", r.Response.StatusCode)
	iv.observers.notify(onInterrupted{p, "told"})
	iv.completer.complete(p, ending{record: r, whole: true, former: true, again: true})
}

// Retention is for how long the feed's topic keeps a message, at least: until it
// has that age, or until so many bytes came after it. 0 is for ever.
type Retention struct {
	Time  time.Duration
	Bytes int64
}

// aging lists the accepted activations whose messages only the feed has, in the
// order in which they came. What gets as old as half of the topic's retention is
// spilled, whatever it waits for or does: were this process to end then, its
// message might not be there any more.
type aging struct {
	keeps Retention
	store SpillStore
	clock func() time.Duration

	mu          sync.Mutex
	first, last *pending
	read        int64 // bytes of messages so far
}

// aged is a pending activation's place in the list.
type aged struct {
	listed       bool
	before, next *pending
	read         int64 // bytes that came before it
}

// newAging is nil where nothing grows old.
func newAging(s Settings, store SpillStore, clock func() time.Duration) *aging {
	if store == nil || s.Retention == (Retention{}) {
		return nil
	}
	return &aging{keeps: s.Retention, store: store, clock: clock}
}

// add lists a pending activation.
func (ag *aging) add(p *pending) {
	if ag == nil || p.unlisted {
		return
	}
	ag.mu.Lock()
	defer ag.mu.Unlock()
	p.age = aged{listed: true, before: ag.last, read: ag.read}
	ag.read += size(p.Message)
	if ag.last != nil {
		ag.last.age.next = p
	} else {
		ag.first = p
	}
	ag.last = p
}

// remove takes a pending activation off the list, if it is there.
func (ag *aging) remove(p *pending) {
	if ag == nil {
		return
	}
	ag.mu.Lock()
	defer ag.mu.Unlock()
	ag.drop(p)
}

func (ag *aging) drop(p *pending) {
	a := p.age
	if !a.listed {
		return
	}
	p.age = aged{}
	if a.before != nil {
		a.before.age.next = a.next
	} else {
		ag.first = a.next
	}
	if a.next != nil {
		a.next.age.before = a.before
	} else {
		ag.last = a.before
	}
}

// Bounds of the time between looks.
const (
	agingPollMin = 100 * time.Millisecond
	agingPollMax = 10 * time.Second
)

// watch spills what grows old, until ctx ends.
func (ag *aging) watch(ctx context.Context) {
	if ag == nil {
		return
	}
	every := min(max(ag.keeps.Time/20, agingPollMin), agingPollMax)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for ag.spill(ag.due(every)) {
		}
	}
}

// due lists the oldest of those that would be too old at the next look.
func (ag *aging) due(every time.Duration) (all []*pending) {
	ag.mu.Lock()
	defer ag.mu.Unlock()
	for p := ag.first; p != nil && len(all) < spillBatch; p = p.age.next {
		late := ag.keeps.Time > 0 && 2*(ag.clock()+every-p.accepted) >= ag.keeps.Time
		behind := ag.keeps.Bytes > 0 && 2*(ag.read-p.age.read) >= ag.keeps.Bytes
		if !late && !behind {
			break
		}
		all = append(all, p)
	}
	return all
}

// spill has the feed let go of those whose messages are on disk, and tells
// whether there may be more. The others are tried again at the next look.
func (ag *aging) spill(all []*pending) bool {
	if len(all) == 0 {
		return false
	}
	ids, texts := make([]activation.ID, len(all)), make([][]byte, len(all))
	for i, p := range all {
		ids[i], texts[i] = p.ActivationID, p.Message.Encode()
	}
	well := true
	for i, err := range ag.store.Spill(ids, texts) {
		if err != nil {
			well = false
			continue
		}
		ag.remove(all[i])
		all[i].letGo()
	}
	return well && len(all) == spillBatch
}
