package invoker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// unsettled lists the activations whose end is reported while their acks and record are
// not all safe. Their messages are delivered again if this process ends, and the next
// process must not send another end than a caller, a record or an event has already. The
// journal is given the ends that callers and events get before they get them, and the
// other ends that stay on the list for long.
type unsettled struct {
	journal Journal
	events  bool // user events have a reader
	log     *slog.Logger
	wall    func() time.Time
	failing atomic.Bool // the journal did not take the last ends

	mu   sync.Mutex
	ends map[*pending]bool
}

// settled takes a pending activation off the list: nothing of it can be lost any more.
func (u *unsettled) settled(p *pending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ends, p)
}

// ended lists the end of a pending activation, unless the next process does not get it
// or comes to the same end by itself.
func (u *unsettled) ended(p *pending, e ending) {
	if p.NotJournaled || e.silent {
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
	if (p.Blocking || u.events) && !p.NotJournaled && !e.silent && !e.repeated {
		u.keep([]*pending{p})
	}
}

const (
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

// watch polls the list until ctx ends.
func (u *unsettled) watch(ctx context.Context) {
	ends := time.NewTicker(endsPoll)
	defer ends.Stop()
	for {
		select {
		case <-ends.C:
			u.keep(u.overdue(false))
		case <-ctx.Done():
			return
		}
	}
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
