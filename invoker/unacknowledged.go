package invoker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// unacknowledged lists the pending activations of which an end is reported and whose
// acks and record are not all safe. Should this process end, their messages are
// delivered again, and the next process must not send another end than a caller, a
// record or an event has already. The journal is given the ends that callers and
// events get before they get them, and others that stay on the list for long.
type unacknowledged struct {
	mu      sync.Mutex
	all     map[*pending]bool
	failing atomic.Bool // the journal did not take the last ones
}

// An ack takes milliseconds and a record some hundred at most when all is well.
// Nothing more is written then. What is not safe after so many polls, the journal is
// given: were the process killed, the next one would answer that it was interrupted.
const (
	unackedPoll    = 100 * time.Millisecond
	pollsForAck    = 2
	pollsForRecord = 10
	// unackedBatch bounds the records in memory at once.
	unackedBatch = 64
)

// add lists a pending activation, unless the next process does not get it or comes
// to the same end by itself.
func (u *unacknowledged) add(p *pending, e ending) {
	if p.Unlisted || e.silent {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[*pending]bool{}
	}
	u.all[p], p.polls = true, 0
}

func (u *unacknowledged) remove(p *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, p)
}

// overdue polls the list, and gives those whose ends the journal should have by now
// and has not; with all, those that it has not.
func (u *unacknowledged) overdue(all bool) (late []*pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p := range u.all {
		p.polls = min(p.polls+1, pollsForRecord)
		due := p.polls >= pollsForRecord || p.polls >= pollsForAck && p.unsent.Load() > 0
		if at, _ := p.ended(); (due || all) && p.kept != at {
			late = append(late, p)
		}
	}
	return late
}

// kept records that the journal was given an end, and reports whether the pending
// activation is still on the list.
func (u *unacknowledged) kept(p *pending, at stage, kept bool) (listed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if kept {
		p.kept = at
	}
	return u.all[p]
}

// ended gives what a pending activation ended with, and how far it has come since.
func (p *pending) ended() (stage, ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage, p.ending
}

// watchUnacknowledged has the journal keep what is unacknowledged for long, until
// ctx ends.
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

// keepAllUnacknowledged has the journal keep all that is unacknowledged, when
// nothing more is sent.
func (c *completer) keepAllUnacknowledged() { c.keepUnacknowledged(c.unacknowledged.overdue(true)) }

// keepReported lists a pending activation. It returns when the journal has the end,
// if a caller or a reader of events is about to get it.
func (c *completer) keepReported(p *pending, e ending) {
	c.unacknowledged.add(p, e)
	if (p.Blocking || c.events) && !p.Unlisted && !e.silent && !e.repeated {
		c.keepUnacknowledged([]*pending{p})
	}
}

func (c *completer) keepUnacknowledged(all []*pending) {
	if len(all) == 0 {
		return
	}
	var failed int
	var why error
	for len(all) > 0 {
		some := all[:min(len(all), unackedBatch)]
		all = all[len(some):]
		stages, ids, docs := make([]stage, len(some)), make([]activation.ID, len(some)), make([][]byte, len(some))
		for i, p := range some {
			at, e := p.ended()
			if e.document == nil {
				e.document = e.record.Document(c.wall().UnixMilli())
			}
			stages[i], ids[i], docs[i] = at, p.ActivationID, e.document
		}
		for i, err := range c.journal.KeepUnacknowledged(ids, docs) {
			if c.unacknowledged.kept(some[i], stages[i], err == nil) && err != nil {
				failed, why = failed+1, err
			}
		}
	}
	if was := c.unacknowledged.failing.Swap(failed > 0); failed > 0 && !was {
		c.log.Error("results of activations are not kept for the next process", "activations", failed, "error", why)
	}
}
