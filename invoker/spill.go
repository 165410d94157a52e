package invoker

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// spilled is what memory holds of an activation whose message is on disk:
// what distinguishes it from others of its caller. There may be very many, so it is small.
type spilled struct {
	id       [16]byte
	caller   *caller
	queued   time.Duration
	came     arrivalCounts // for its trace, as is what held it
	obstacle *obstacle
	trans    [transBytes]byte // the name of its transaction, followed by zeros
	began    int64            // the transaction, in epoch milliseconds
	rest     *rest            // of few
}

// transBytes is the name of a transaction that a controller makes.
const transBytes = 32

// rest is what few have.
type rest struct {
	transID string // as JSON, where it is more than a short name and a time
	cause   activation.ID
}

// caller is what the spilled activations of a function have in common that are
// invoked by the same subject in the same way. It is enough to answer one
// whose message cannot be read any more.
type caller struct {
	traits
	spilled int
}

// traits distinguish callers.
type traits struct {
	key        string // equal for those that may share containers
	action     activation.ActionRef
	revision   string
	subject    string
	namespace  activation.Namespace
	controller string
	blocking   bool
	stores     stores
}

// stores is what a namespace says about its records.
type stores uint8

const (
	storesDefault stores = iota
	storesAll
	storesNone
)

func traitsOf(act *routed) traits {
	m := act.Message
	t := traits{
		key: act.key, action: m.Action, revision: m.Revision, subject: m.User.Subject,
		namespace: m.User.Namespace, controller: m.Controller, blocking: m.Blocking,
	}
	switch s := m.User.Limits.StoreActivations; {
	case s == nil:
	case *s:
		t.stores = storesAll
	default:
		t.stores = storesNone
	}
	return t
}

// clone copies the texts, which are parts of a message that shall go.
func (t traits) clone() traits {
	for _, s := range []*string{
		&t.key, &t.action.Path, &t.action.Name, &t.action.Version, &t.action.Binding, &t.revision,
		&t.subject, &t.namespace.Name, &t.namespace.UUID, &t.controller,
	} {
		*s = strings.Clone(*s)
	}
	return t
}

// spilledSet lists what is spilled, by the cores' name of it.
type spilledSet struct {
	byInvocation map[uint64]*spilled
	callers      map[traits]*caller
}

func newSpilledSet() spilledSet {
	return spilledSet{byInvocation: map[uint64]*spilled{}, callers: map[traits]*caller{}}
}

// put records that a job's message is on disk.
func (set *spilledSet) put(act *routed) {
	t := traitsOf(act)
	c := set.callers[t]
	if c == nil {
		t = t.clone()
		c = &caller{traits: t}
		set.callers[t] = c
	}
	c.spilled++
	sp := new(spilled)
	sp.caller, sp.queued, sp.came, sp.obstacle = c, act.queued, act.came, act.obstacle
	_, _ = hex.Decode(sp.id[:], []byte(act.ActivationID)) // an ID is that
	copy(sp.trans[:], act.TransID.ID())
	sp.began = act.TransID.StartMillis()
	text := act.TransID.JSON()
	long := !bytes.Equal(text, sp.transID().JSON())
	if long || act.Cause != "" {
		sp.rest = &rest{cause: activation.ID(strings.Clone(string(act.Cause)))}
		if long {
			sp.rest.transID = string(text)
		}
	}
	set.byInvocation[act.invocation] = sp
}

// transID is the transaction, as far as its name and its time say it.
func (sp *spilled) transID() activation.TransID {
	return activation.NewTransID(string(bytes.TrimRight(sp.trans[:], "\x00")), sp.began, false)
}

// take takes one off the list; false when it is not there.
func (set *spilledSet) take(invocation uint64) (sp spilled, ok bool) {
	at := set.byInvocation[invocation]
	if at == nil {
		return sp, false
	}
	sp = *at
	delete(set.byInvocation, invocation)
	if len(set.byInvocation) == 0 {
		set.byInvocation = map[uint64]*spilled{} // a map does not shrink by itself
	}
	if sp.caller.spilled--; sp.caller.spilled == 0 {
		delete(set.callers, sp.caller.traits)
	}
	return sp, true
}

func (sp spilled) activation() activation.ID { return activation.ID(hex.EncodeToString(sp.id[:])) }

// message is as much of a spilled message as memory has: enough to answer it.
func (sp spilled) message() *activation.Message {
	c := sp.caller
	trans, cause := sp.transID(), activation.ID("")
	if sp.rest != nil {
		cause = sp.rest.cause
		if sp.rest.transID != "" {
			trans, _ = activation.ParseTransID([]byte(sp.rest.transID)) // it was read before
		}
	}
	m := &activation.Message{
		TransID: trans, Action: c.action, Revision: c.revision, ActivationID: sp.activation(),
		User:       activation.Identity{Subject: c.subject, Namespace: c.namespace},
		Controller: c.controller, Blocking: c.blocking, Cause: cause,
	}
	if c.stores != storesDefault {
		all := c.stores == storesAll
		m.User.Limits.StoreActivations = &all
	}
	return m
}

// spiller puts messages on disk beside the dispatcher, many at a time, and
// tries again for as long as that fails. A goroutine of its own works while
// there is something to do.
type spiller struct {
	store  SpillStore
	post   func(event)
	goWork func(func(ctx context.Context))

	mu      sync.Mutex
	waiting []*routed
	busy    bool
}

// What is spilled at a time: the disk is waited for once for all of them.
const (
	spillBatch      = 256
	spillBatchBytes = 4 << 20
)

// parkPause bounds the pause before spilling is tried again.
const (
	spillRetryMin = 500 * time.Millisecond
	spillRetryMax = 10 * time.Second
)

// add has a job's message spilled; the answer is an event.
func (s *spiller) add(act *routed) {
	s.mu.Lock()
	s.waiting = append(s.waiting, act)
	start := !s.busy
	s.busy = true
	s.mu.Unlock()
	if start {
		s.goWork(s.work)
	}
}

func (s *spiller) work(ctx context.Context) {
	backoff := retry.Backoff{Min: spillRetryMin, Max: spillRetryMax}
	for {
		acts := s.next()
		if len(acts) == 0 {
			return
		}
		done, failed, err := s.spill(acts)
		s.post(spilledEvent{done, err})
		if err == nil {
			backoff.Reset()
			continue
		}
		s.back(failed)
		if !backoff.Wait(ctx) {
			return
		}
		s.prune()
	}
}

// next takes the first jobs; none, and the work ends.
func (s *spiller) next() []*routed {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, bytes := 0, int64(0)
	for n < min(len(s.waiting), spillBatch) && bytes < spillBatchBytes {
		bytes += size(s.waiting[n].Message)
		n++
	}
	acts := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	if n == 0 {
		s.busy, s.waiting = false, nil
	}
	return acts
}

// spill tells which messages are spilled, which are not, and why.
func (s *spiller) spill(acts []*routed) (done, failed []*routed, err error) {
	ids, texts := make([]activation.ID, len(acts)), make([][]byte, len(acts))
	for i, act := range acts {
		ids[i], texts[i] = act.ActivationID, act.Message.Encode()
	}
	for i, e := range s.store.Spill(ids, texts) {
		switch {
		case e == nil:
			done = append(done, acts[i])
		case acts[i].open(): // else it went its way meanwhile
			failed, err = append(failed, acts[i]), e
		}
	}
	return done, failed, err
}

func (s *spiller) back(acts []*routed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(acts, s.waiting...)
}

// prune drops those that were answered meanwhile.
func (s *spiller) prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []*routed
	for _, act := range s.waiting {
		if act.open() {
			open = append(open, act)
		}
	}
	s.waiting = open
}
