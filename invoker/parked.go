package invoker

import (
	"bytes"
	"encoding/hex"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/slab"
)

// parked is what memory holds of an activation whose message is on the shelf:
// what tells it from others of its caller. There may be very many, so it is small.
type parked struct {
	id     [16]byte
	caller *caller
	queued time.Duration
	came   mark // for its account, as is what held it
	held   *obstacle
	trans  [transBytes]byte // the name of its transaction, followed by zeros
	began  int64            // the transaction, in epoch milliseconds
	rest   *rest            // of few
}

// transBytes is the name of a transaction that a controller makes.
const transBytes = 32

// rest is what few have.
type rest struct {
	transID string // as JSON, where it is more than a short name and a time
	cause   activation.ID
}

// caller is what the parked activations of a function have in common that are
// invoked by the same subject in the same way. It is enough to answer one
// whose message cannot be read any more.
type caller struct {
	traits
	parked int
}

// traits tell callers apart.
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
	storesAsTold stores = iota
	storesAll
	storesNone
)

func traitsOf(j *job) traits {
	m := j.Message
	t := traits{
		key: j.key, action: m.Action, revision: m.Revision, subject: m.User.Subject,
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

// shelved lists what is parked, by the cores' name of it.
type shelved struct {
	items   map[uint64]*parked
	callers map[traits]*caller
	slab    slab.Slab[parked]
}

func newShelved() shelved {
	return shelved{items: map[uint64]*parked{}, callers: map[traits]*caller{}}
}

// put notes that a job's message is on the shelf.
func (s *shelved) put(j *job) {
	t := traitsOf(j)
	c := s.callers[t]
	if c == nil {
		t = t.clone()
		c = &caller{traits: t}
		s.callers[t] = c
	}
	c.parked++
	p := s.slab.Take()
	p.caller, p.queued, p.came, p.held = c, j.queued, j.came, j.obstacle
	_, _ = hex.Decode(p.id[:], []byte(j.ActivationID)) // an ID is that
	copy(p.trans[:], j.TransID.ID())
	p.began = j.TransID.StartMillis()
	text := j.TransID.JSON()
	long := !bytes.Equal(text, p.transID().JSON())
	if long || j.Cause != "" {
		p.rest = &rest{cause: activation.ID(strings.Clone(string(j.Cause)))}
		if long {
			p.rest.transID = string(text)
		}
	}
	s.items[j.item] = p
}

// transID is the transaction, as far as its name and its time say it.
func (p *parked) transID() activation.TransID {
	return activation.NewTransID(string(bytes.TrimRight(p.trans[:], "\x00")), p.began, false)
}

// take takes one off the list; false when it is not there.
func (s *shelved) take(item uint64) (p parked, ok bool) {
	at := s.items[item]
	if at == nil {
		return p, false
	}
	p = *at
	delete(s.items, item)
	if s.slab.Give(at); len(s.items) == 0 {
		s.items, s.slab = map[uint64]*parked{}, slab.Slab[parked]{} // neither shrinks by itself
	}
	if p.caller.parked--; p.caller.parked == 0 {
		delete(s.callers, p.caller.traits)
	}
	return p, true
}

func (p parked) activation() activation.ID { return activation.ID(hex.EncodeToString(p.id[:])) }

// message is as much of a parked message as memory has: enough to answer it.
func (p parked) message() *activation.Message {
	c := p.caller
	trans, cause := p.transID(), activation.ID("")
	if p.rest != nil {
		cause = p.rest.cause
		if p.rest.transID != "" {
			trans, _ = activation.ParseTransID([]byte(p.rest.transID)) // it was read before
		}
	}
	m := &activation.Message{
		TransID: trans, Action: c.action, Revision: c.revision, ActivationID: p.activation(),
		User:       activation.Identity{Subject: c.subject, Namespace: c.namespace},
		Controller: c.controller, Blocking: c.blocking, Cause: cause,
	}
	if c.stores != storesAsTold {
		all := c.stores == storesAll
		m.User.Limits.StoreActivations = &all
	}
	return m
}
