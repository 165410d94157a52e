package invoker

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// unsettled lists the accepted activations of which this process could lose something,
// were it to end.
//
// Of some only the feed has the message. What gets half as old as the topic's retention
// is spilled, whatever it waits for or does: a later process might not find it any more.
//
// Of others an end is reported, and acks and record are not all safe. Their messages are
// delivered again, and the next process must not send another end than a caller, a
// record or an event has already. The journal is given the ends that callers and events
// get before they get them, and others that stay on the list for long.
type unsettled struct {
	retention Retention
	spill     SpillStore // nil: no message is spilled
	journal   Journal
	events    bool // user events have a reader
	log       *slog.Logger
	clock     func() time.Duration
	wall      func() time.Time
	failing   atomic.Bool // the journal did not take the last ends

	mu       sync.Mutex
	messages list.List // of *pending, the oldest first
	read     int64     // bytes of messages so far
	ends     map[*pending]bool
}

// Retention is for how long the feed's topic keeps a message, at least: until it
// has that age, or until so many bytes came after it. 0 is for ever.
type Retention struct {
	Time  time.Duration
	Bytes int64
}

// ages reports whether messages grow old.
func (u *unsettled) ages() bool { return u.spill != nil && u.retention != Retention{} }

// accepted lists the message of a pending activation.
func (u *unsettled) accepted(p *pending) {
	if p.Unlisted || !u.ages() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	p.age, p.before = u.messages.PushBack(p), u.read
	u.read += p.size()
}

// spilled takes a message off the list, if it is there: it is on disk.
func (u *unsettled) spilled(p *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p.age != nil {
		u.messages.Remove(p.age)
		p.age = nil
	}
}

// settled takes a pending activation off both lists: nothing can be lost any more.
func (u *unsettled) settled(p *pending) {
	u.spilled(p)
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ends, p)
}

// ended lists the end of a pending activation, unless the next process does not get it
// or comes to the same end by itself.
func (u *unsettled) ended(p *pending, e ending) {
	if p.Unlisted || e.silent {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ends[p], p.polls = true, 0
}

// reported lists the end of a pending activation. It returns when the journal has it,
// if a caller or a reader of events is about to get it.
func (u *unsettled) reported(p *pending, e ending) {
	u.ended(p, e)
	if (p.Blocking || u.events) && !p.Unlisted && !e.silent && !e.repeated {
		u.keep([]*pending{p})
	}
}

const (
	// Bounds of the time between two polls of the messages.
	agingPollMin = 100 * time.Millisecond
	agingPollMax = 10 * time.Second
	// An ack takes milliseconds and a record some hundred at most when all is well.
	// Nothing more is written then. The journal is given the end of what is not safe
	// after so many polls: were the process killed, the next one would answer that it
	// was interrupted.
	endsPoll       = 100 * time.Millisecond
	pollsForAck    = 2
	pollsForRecord = 10
	// endsBatch bounds the records in memory at once.
	endsBatch = 64
)

// watch polls both lists until ctx ends.
func (u *unsettled) watch(ctx context.Context) {
	ends := time.NewTicker(endsPoll)
	defer ends.Stop()
	every := min(max(u.retention.Time/20, agingPollMin), agingPollMax)
	messages := time.NewTicker(every)
	defer messages.Stop()
	for {
		select {
		case <-ends.C:
			u.keep(u.overdue(false))
		case <-messages.C:
			for u.spillAll(u.old(every)) {
			}
		case <-ctx.Done():
			return
		}
	}
}

// old lists the oldest of the messages that would be too old at the next poll.
func (u *unsettled) old(every time.Duration) (all []*pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for e := u.messages.Front(); e != nil && len(all) < spillBatch; e = e.Next() {
		p, r := e.Value.(*pending), u.retention
		late := r.Time > 0 && 2*(u.clock()+every-p.accepted) >= r.Time
		behind := r.Bytes > 0 && 2*(u.read-p.before) >= r.Bytes
		if !late && !behind {
			break
		}
		all = append(all, p)
	}
	return all
}

// spillAll commits those whose messages are on disk, and reports whether there may be
// more. The others are tried again at the next poll.
func (u *unsettled) spillAll(all []*pending) bool {
	if len(all) == 0 {
		return false
	}
	well := true
	for i, err := range writeMessages(u.spill, all) {
		if err != nil {
			well = false
			continue
		}
		u.spilled(all[i])
		all[i].commit()
	}
	return well && len(all) == spillBatch
}

// overdue polls the ends, and gives those that the journal should have by now and has
// not; with all, those that it has not.
func (u *unsettled) overdue(all bool) (late []*pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p := range u.ends {
		p.polls = min(p.polls+1, pollsForRecord)
		due := p.polls >= pollsForRecord || p.polls >= pollsForAck && p.unsent.Load() > 0
		if at, _ := p.ended(); (due || all) && p.kept != at {
			late = append(late, p)
		}
	}
	return late
}

// keepAll has the journal keep all ends that are not safe, when nothing more is sent.
func (u *unsettled) keepAll() { u.keep(u.overdue(true)) }

// keep has the journal keep ends.
func (u *unsettled) keep(all []*pending) {
	if len(all) == 0 {
		return
	}
	var failed int
	var why error
	for len(all) > 0 {
		some := all[:min(len(all), endsBatch)]
		all = all[len(some):]
		stages, ids, docs := make([]stage, len(some)), make([]activation.ID, len(some)), make([][]byte, len(some))
		for i, p := range some {
			at, e := p.ended()
			if e.document == nil {
				e.document = e.record.Document(u.wall().UnixMilli())
			}
			stages[i], ids[i], docs[i] = at, p.ActivationID, e.document
		}
		for i, err := range u.journal.KeepUnacknowledged(ids, docs) {
			if u.kept(some[i], stages[i], err == nil) && err != nil {
				failed, why = failed+1, err
			}
		}
	}
	if was := u.failing.Swap(failed > 0); failed > 0 && !was {
		u.log.Error("results of activations are not kept for the next process", "activations", failed, "error", why)
	}
}

// kept records that the journal was given an end, and reports whether the pending
// activation is still on the list.
func (u *unsettled) kept(p *pending, at stage, kept bool) (listed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if kept {
		p.kept = at
	}
	return u.ends[p]
}
