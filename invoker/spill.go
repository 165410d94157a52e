package invoker

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// spilled is what stays in memory of an activation whose message is on disk: what
// its scheduling and its trace need, and what answers it if the message cannot be
// read back. There may be very many, so the parts that many share are shared.
type spilled struct {
	id       activation.ID
	transID  string // as JSON
	cause    activation.ID
	caller   unique.Handle[caller]
	queued   time.Duration
	came     arrivalCounts
	obstacle *obstacle
}

// caller is what the activations of a function have in common that the same
// subject invokes in the same way.
type caller struct {
	key        string // equal for those that may share containers
	action     activation.ActionRef
	revision   string
	subject    string
	namespace  activation.Namespace
	controller string
	blocking   bool
	stores     storeWish
}

// storeWish is what a namespace asks for its records.
type storeWish uint8

const (
	storeDefault storeWish = iota
	storeAll
	storeNone
)

func newSpilled(p *pending) *spilled {
	c := caller{
		key: p.key, action: p.Action, revision: p.Revision, subject: p.User.Subject,
		namespace: p.User.Namespace, controller: p.Controller, blocking: p.Blocking,
	}
	if s := p.User.Limits.StoreActivations; s != nil {
		c.stores = storeNone
		if *s {
			c.stores = storeAll
		}
	}
	// The texts are parts of the message, which must be freed: unique copies them, too.
	return &spilled{
		id: activation.ID(strings.Clone(string(p.ActivationID))), transID: string(p.TransID.JSON()),
		cause:  activation.ID(strings.Clone(string(p.Cause))),
		caller: unique.Make(c), queued: p.queued, came: p.came, obstacle: p.obstacle,
	}
}

// message is as much of a spilled message as memory has: enough to answer it.
func (sp *spilled) message() *activation.Message {
	c := sp.caller.Value()
	trans, _ := activation.ParseTransID([]byte(sp.transID)) // it was valid
	m := &activation.Message{
		TransID: trans, Action: c.action, Revision: c.revision, ActivationID: sp.id,
		User:       activation.Identity{Subject: c.subject, Namespace: c.namespace},
		Controller: c.controller, Blocking: c.blocking, Cause: sp.cause,
	}
	if c.stores != storeDefault {
		all := c.stores == storeAll
		m.User.Limits.StoreActivations = &all
	}
	return m
}

// spiller writes messages to disk beside the dispatcher, many at a time, and
// tries again for as long as that fails. A goroutine of its own works while
// there is something to do.
type spiller struct {
	store SpillStore
	d     *dispatcher

	mu      sync.Mutex
	waiting []*pending
	busy    bool
}

// What is written at a time: the disk is waited for once for all of them.
const (
	spillBatch      = 256
	spillBatchBytes = 4 << 20
)

// Bounds of the pause before spilling is tried again.
const (
	spillRetryMin = 500 * time.Millisecond
	spillRetryMax = 10 * time.Second
)

// add has a message spilled; a spilledEvent reports it.
func (s *spiller) add(p *pending) {
	s.mu.Lock()
	s.waiting = append(s.waiting, p)
	start := !s.busy
	s.busy = true
	s.mu.Unlock()
	if start {
		s.d.goWork(s.work)
	}
}

func (s *spiller) work(ctx context.Context) {
	backoff := retry.Backoff{Min: spillRetryMin, Max: spillRetryMax}
	for {
		batch := s.next()
		if len(batch) == 0 {
			return
		}
		done, failed, err := s.write(batch)
		s.d.post(spilledEvent{done, err})
		if err == nil {
			backoff.Reset()
			continue
		}
		s.mu.Lock() // what has left the backlog meanwhile need not be written
		s.waiting = slices.DeleteFunc(append(failed, s.waiting...), func(p *pending) bool { return !p.at(isAccepted) })
		s.mu.Unlock()
		if !backoff.Wait(ctx) {
			return
		}
	}
}

// next takes the first ones; if there are none, the work ends.
func (s *spiller) next() []*pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, bytes := 0, int64(0)
	for n < min(len(s.waiting), spillBatch) && bytes < spillBatchBytes {
		bytes += s.waiting[n].size()
		n++
	}
	batch := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	if n == 0 {
		s.busy, s.waiting = false, nil
	}
	return batch
}

// write spills messages, and returns which are spilled, which are not, and why.
func (s *spiller) write(batch []*pending) (done, failed []*pending, err error) {
	for i, e := range writeMessages(s.store, batch) {
		switch {
		case e == nil:
			done = append(done, batch[i])
		case batch[i].at(isAccepted): // else it need not be spilled any more
			failed, err = append(failed, batch[i]), e
		}
	}
	return done, failed, err
}

func writeMessages(store SpillStore, all []*pending) []error {
	ids, texts := make([]activation.ID, len(all)), make([][]byte, len(all))
	for i, p := range all {
		ids[i], texts[i] = p.ActivationID, p.Encode()
	}
	return store.Spill(ids, texts)
}

// textUnreadable answers an activation whose message was spilled and is lost.
const textUnreadable = "The activation waited for a GPU, and the invoker cannot read its message back from its disk."

// fetcher reads spilled messages back beside the dispatcher, and makes pending
// activations of them. What a run waits for is read at once; the rest in their
// order, at most fetchTogether at a time.
type fetcher struct {
	iv *Invoker

	mu      sync.Mutex
	waiting []*loading
	workers int
}

// fetchTogether keeps an action store busy, and few messages in memory.
const fetchTogether = 16

// now reads one back at once.
func (f *fetcher) now(l *loading) { f.iv.dispatch.goWork(func(ctx context.Context) { f.do(ctx, l) }) }

// hurry reads one back at once that waits for its turn: a run has come to wait for
// it. What is before it may wait for an action that cannot be read for minutes.
func (f *fetcher) hurry(l *loading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := slices.Index(f.waiting, l); at >= 0 {
		f.waiting = slices.Delete(f.waiting, at, at+1)
		f.now(l)
	}
}

// add reads one back in its turn.
func (f *fetcher) add(l *loading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, l)
	if f.workers < fetchTogether {
		f.workers++
		f.iv.dispatch.goWork(f.work)
	}
}

func (f *fetcher) work(ctx context.Context) {
	for {
		f.mu.Lock()
		if len(f.waiting) == 0 || ctx.Err() != nil {
			f.workers--
			f.mu.Unlock()
			return
		}
		l := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.mu.Unlock()
		f.do(ctx, l)
	}
}

// do reads one back, for the dispatcher.
func (f *fetcher) do(ctx context.Context, l *loading) {
	p, no := f.read(ctx, l.spilled)
	if ctx.Err() != nil { // it stays spilled, for the next process
		f.iv.permits.release(p)
		return
	}
	f.iv.dispatch.post(broughtBack{l, p, no})
}

// read makes a pending activation of a spilled one again, and routes it. An ending
// is why it cannot run.
func (f *fetcher) read(ctx context.Context, sp *spilled) (p *pending, no *ending) {
	iv := f.iv
	m, err := f.message(sp)
	p = newPending(iv.completer, Delivery{Message: m, Done: func() {}}, sp.queued)
	iv.observe.loaded(p)
	iv.permits.unspill(p)
	if err != nil {
		iv.log.Error("spilled activation cannot be read back", keyActivation, m.ActivationID, keyAction, m.Action.FQN(), "error", err)
		return p, refused(activation.StatusWhiskError, textUnreadable)
	}
	defer func() {
		if cause := recover(); cause != nil {
			iv.log.Error("reading a spilled activation panicked", keyActivation, m.ActivationID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			no = refused(activation.StatusWhiskError, textAborted)
		}
	}()
	a, cached := iv.cached(p)
	if !cached {
		if a, err = iv.awaitAction(ctx, p); err != nil {
			return p, unfetched(err)
		}
	}
	if no = iv.settings.route(p, a); no == nil {
		p.resume(sp)
	}
	return p, no
}

// message is the whole message, or with an error what memory has of it.
func (f *fetcher) message(sp *spilled) (*activation.Message, error) {
	text, err := f.iv.ports.Spill.Message(sp.id)
	if err != nil {
		return sp.message(), err
	}
	m, err := activation.DecodeMessage(text)
	if err != nil {
		return sp.message(), err
	}
	return m, nil
}
