package activation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// ActionRef names the action that an activation runs, with bindings resolved by
// the controller.
type ActionRef struct {
	Path    string // namespace, or namespace/package
	Name    string
	Version string // empty when the message has none
	Binding string // namespace/binding that the caller named; empty when none
}

// FQN is the action's path and name, which is also its document's id.
func (a ActionRef) FQN() string { return a.Path + "/" + a.Name }

// Message is one activation as the controller sends it. It shares memory with
// the bytes it was decoded from.
type Message struct {
	TransID      TransID
	Action       ActionRef
	Revision     string // empty: not known, the latest is meant
	User         Identity
	ActivationID ID
	Controller   string // id of the controller that waits for the ack
	Blocking     bool
	Content      json.RawMessage // nil when absent
	InitArgs     []string        // parameters that go to /init only
	LockedArgs   []LockedArg     // parameters that are encrypted
	Cause        ID              // empty unless part of a sequence or composition
	TraceContext json.RawMessage // nil when absent
	Forwarded    *Forwarded      // nil: it comes from a controller
}

// Forwarded is added to a message that one invoker passes on to another. Controllers
// and original invokers ignore it.
type Forwarded struct {
	// Instance is the invoker to which the controller sent the message. The acks must
	// free a slot of this invoker.
	Instance Instance
	// Hops is how often the message was passed on.
	Hops int
}

// LockedArg names an encrypted parameter and its algorithm.
type LockedArg struct{ Name, Algorithm string }

// DecodeMessage decodes an activation message. It returns an error for every message
// that the original would drop. The message refers to data, so the caller must not
// change data afterwards.
func DecodeMessage(data []byte) (*Message, error) {
	m := &Message{}
	p := newParser(data)
	p.fields(
		required("transid", func() { m.TransID = p.transID() }),
		required("action", func() { m.Action = p.actionRef() }),
		required("revision", func() {
			if !p.null() {
				m.Revision = p.str()
			}
		}),
		required("user", func() { m.User = p.identity() }),
		required("activationId", func() { m.ActivationID = p.id() }),
		required("rootControllerIndex", func() { m.Controller = p.controller() }),
		required("blocking", func() { m.Blocking = p.bool() }),
		required("initArgs", func() { m.InitArgs = p.strings() }),
		required("lockedArgs", func() { m.LockedArgs = p.lockedArgs() }),
		optional("content", func() { m.Content = p.raw() }),
		optional("cause", func() { m.Cause = p.id() }),
		optional("traceContext", func() { m.TraceContext = p.rawObject() }),
		optional("forwarded", func() { m.Forwarded = p.forwarded() }),
	)
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("decode activation message: %w", err)
	}
	return m, nil
}

func (p *parser) id() ID       { return parsed(p, ParseID) }
func (p *parser) path() string { return parsed(p, ParsePath) }

// parsed reads a string by a function that may refuse it.
func parsed[T any](p *parser, parse func(string) (T, error)) (v T) {
	s := p.str()
	if p.err != nil {
		return v
	}
	v, err := parse(s)
	if err != nil {
		p.fail(err)
	}
	return v
}

func (p *parser) version() string {
	v := parsed(p, ParseSemVer)
	if p.err != nil {
		return ""
	}
	return v.String()
}

// actionRef reads an object, or the plain text that old controllers sent.
func (p *parser) actionRef() ActionRef {
	var a ActionRef
	if p.peek() == '"' {
		full := p.path()
		cut := strings.LastIndexByte(full, '/')
		p.require(cut > 0, "path and name")
		if p.err == nil {
			a.Path, a.Name = full[:cut], full[cut+1:]
		}
		return a
	}
	p.fields(
		required("path", func() { a.Path = p.path() }),
		required("name", func() { a.Name = p.name() }),
		optional("version", func() { a.Version = p.version() }),
		optional("binding", func() { a.Binding = p.path() }),
	)
	return a
}

func (p *parser) controller() string {
	var id string
	p.fields(
		required("asString", func() { id = p.str() }),
		optional("instanceType", func() {
			if p.str() != "controller" {
				p.failf("want the type controller")
			}
		}),
	)
	if p.err == nil && !validControllerID(id) {
		p.failf("want a controller id")
	}
	return id
}

func (p *parser) forwarded() *Forwarded {
	f := &Forwarded{}
	p.fields(
		required("hops", func() { f.Hops = int(p.integer()) }),
		required("instance", func() { f.Instance = p.instance() }),
	)
	return f
}

func (p *parser) lockedArgs() []LockedArg {
	var locked []LockedArg
	p.object(func(key string) {
		locked = append(locked, LockedArg{key, p.str()})
	})
	return locked
}

// CausedBySequence reports whether a sequence or composition caused the
// activation.
func (m *Message) CausedBySequence() bool { return m.Cause != "" }

// Version is the version of the action, the default one without any in the
// message.
func (m *Message) Version() string {
	return cmp.Or(m.Action.Version, DefaultVersion)
}

// Encode writes the message as a controller does.
func (m *Message) Encode() []byte {
	o := newObject(make([]byte, 0, 768+len(m.Content)))
	o.key("action")
	o.out = m.Action.append(o.out)
	o.str("activationId", string(m.ActivationID))
	o.bool("blocking", m.Blocking)
	o.optional("cause", string(m.Cause))
	if m.Content != nil {
		o.raw("content", m.Content)
	}
	if f := m.Forwarded; f != nil {
		o.key("forwarded")
		way := newObject(o.out)
		way.int("hops", int64(f.Hops))
		way.key("instance")
		way.out = f.Instance.append(way.out)
		o.out = way.end()
	}
	o.strs("initArgs", m.InitArgs)
	o.key("lockedArgs")
	l := newObject(o.out)
	for _, arg := range m.LockedArgs {
		l.str(arg.Name, arg.Algorithm)
	}
	o.out = l.end()
	if o.key("revision"); m.Revision == "" {
		o.out = append(o.out, "null"...)
	} else {
		o.out = AppendString(o.out, m.Revision)
	}
	o.key("rootControllerIndex")
	c := newObject(o.out)
	c.str("asString", m.Controller)
	c.str("instanceType", "controller")
	o.out = c.end()
	if m.TraceContext != nil {
		o.raw("traceContext", m.TraceContext)
	}
	o.raw("transid", m.TransID.JSON())
	o.key("user")
	o.out = m.User.append(o.out)
	return o.end()
}

func (a ActionRef) append(dst []byte) []byte {
	o := newObject(dst)
	o.optional("binding", a.Binding)
	o.str("name", a.Name)
	o.str("path", a.Path)
	o.optional("version", a.Version)
	return o.end()
}
