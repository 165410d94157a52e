package invoker

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// parked is what memory holds of an activation whose message is on the shelf:
// what tells it from others of its caller. There may be very many.
type parked struct {
	id       [16]byte
	transID  string // as JSON
	cause    activation.ID
	caller   *caller
	accepted time.Duration
	queued   time.Duration
	came     mark // for its account
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
	p := &parked{
		transID: string(j.TransID.JSON()), cause: activation.ID(strings.Clone(string(j.Cause))),
		caller: c, accepted: j.accepted, queued: j.queued, came: j.came,
	}
	_, _ = hex.Decode(p.id[:], []byte(j.ActivationID)) // an ID is that
	s.items[j.item] = p
}

// take takes one off the list; nil when it is not there.
func (s *shelved) take(item uint64) *parked {
	p := s.items[item]
	if p == nil {
		return nil
	}
	delete(s.items, item)
	if p.caller.parked--; p.caller.parked == 0 {
		delete(s.callers, p.caller.traits)
	}
	return p
}

func (p *parked) activation() activation.ID { return activation.ID(hex.EncodeToString(p.id[:])) }

// message is as much of a parked message as memory has: enough to answer it.
func (p *parked) message() *activation.Message {
	c := p.caller
	id, _ := activation.ParseTransID([]byte(p.transID)) // it was read before
	m := &activation.Message{
		TransID: id, Action: c.action, Revision: c.revision, ActivationID: p.activation(),
		User:       activation.Identity{Subject: c.subject, Namespace: c.namespace},
		Controller: c.controller, Blocking: c.blocking, Cause: p.cause,
	}
	if c.stores != storesAsTold {
		all := c.stores == storesAll
		m.User.Limits.StoreActivations = &all
	}
	return m
}
