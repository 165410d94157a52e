package invoker

import (
	"bytes"
	"encoding/hex"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// parked is what memory holds of an activation whose message is on the shelf:
// what tells it from others of its caller. There may be very many, so they lie in
// slabs: each alone, among the garbage of the messages that came with it, would
// hold on to several times its size.
type parked struct {
	id      [16]byte
	caller  *caller
	queued  time.Duration
	came    mark               // for its account
	transID [transIDBytes]byte // as JSON, followed by zeros
	rest    *rest              // of few
}

// transIDBytes is enough for a transaction that a controller makes: 32
// characters and a time.
const transIDBytes = 56

// rest is what few have.
type rest struct {
	transID string // one that is longer
	cause   activation.ID
}

// slabParked is how many lie in one slab.
const slabParked = 256

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
	spare   []*parked
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
	p := s.place()
	p.caller, p.queued, p.came = c, j.queued, j.came
	_, _ = hex.Decode(p.id[:], []byte(j.ActivationID)) // an ID is that
	text := j.TransID.JSON()
	long := len(text) > len(p.transID)
	if !long {
		copy(p.transID[:], text)
	}
	if long || j.Cause != "" {
		p.rest = &rest{cause: activation.ID(strings.Clone(string(j.Cause)))}
		if long {
			p.rest.transID = string(text)
		}
	}
	s.items[j.item] = p
}

// place finds room for one.
func (s *shelved) place() *parked {
	if len(s.spare) == 0 {
		slab := make([]parked, slabParked)
		for i := range slab {
			s.spare = append(s.spare, &slab[i])
		}
	}
	n := len(s.spare) - 1
	p := s.spare[n]
	s.spare = s.spare[:n]
	return p
}

// take takes one off the list; false when it is not there.
func (s *shelved) take(item uint64) (p parked, ok bool) {
	at := s.items[item]
	if at == nil {
		return p, false
	}
	p, *at = *at, parked{}
	delete(s.items, item)
	if s.spare = append(s.spare, at); len(s.items) == 0 {
		s.items, s.spare = map[uint64]*parked{}, nil // neither shrinks by itself
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
	text, cause := bytes.TrimRight(p.transID[:], "\x00"), activation.ID("")
	if p.rest != nil {
		cause = p.rest.cause
		if p.rest.transID != "" {
			text = []byte(p.rest.transID)
		}
	}
	id, _ := activation.ParseTransID(bytes.Clone(text)) // it was read before
	m := &activation.Message{
		TransID: id, Action: c.action, Revision: c.revision, ActivationID: p.activation(),
		User:       activation.Identity{Subject: c.subject, Namespace: c.namespace},
		Controller: c.controller, Blocking: c.blocking, Cause: cause,
	}
	if c.stores != storesAsTold {
		all := c.stores == storesAll
		m.User.Limits.StoreActivations = &all
	}
	return m
}
