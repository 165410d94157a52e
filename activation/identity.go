package activation

import (
	"encoding/json"
	"strings"
)

// Namespace is a namespace with the id that it is billed by.
type Namespace struct {
	Name string
	UUID string
}

// Identity is on whose behalf an activation runs.
type Identity struct {
	Subject   string
	Namespace Namespace
	AuthKey   AuthKey
	Rights    []string
	Limits    UserLimits
}

// AuthKey holds the credentials of an action. It is a free-form object, because an
// installation can have its own authentication. It is a secret.
type AuthKey struct{ raw json.RawMessage }

// NewAuthKey makes the key of the stock authentication.
func NewAuthKey(apiKey string) AuthKey {
	o := newObject(nil)
	o.str("api_key", apiKey)
	return AuthKey{raw: o.end()}
}

// Member is one key of a JSON object with its value as it stands.
type Member struct {
	Key   string
	Value json.RawMessage
}

// Members lists the entries of the key in the order of the message. A key that
// occurs twice counts once, with its last value.
func (k AuthKey) Members() []Member {
	m, _ := Members(k.JSON()) // checked when it was read
	return m
}

// JSON is the key as it was read. Callers must not change it.
func (k AuthKey) JSON() json.RawMessage {
	if k.raw == nil {
		return json.RawMessage("{}")
	}
	return k.raw
}

// String hides the key, so that it reaches no log.
func (k AuthKey) String() string { return "(secret)" }

// GoString hides the key, as String does.
func (k AuthKey) GoString() string { return "(secret)" }

// Equal reports whether two keys hold the same text.
func (k AuthKey) Equal(other AuthKey) bool {
	return string(k.JSON()) == string(other.JSON())
}

// Members splits a JSON object into its members, in the order of the text.
func Members(object json.RawMessage) ([]Member, error) {
	var all []Member
	p := newParser(object)
	p.object(func(key string) {
		value := p.raw()
		for i := range all {
			if all[i].Key == key {
				all[i].Value = value
				return
			}
		}
		all = append(all, Member{key, value})
	})
	if err := p.end(); err != nil {
		return nil, err
	}
	return all, nil
}

func (p *parser) identity() Identity {
	var id Identity
	p.fields(
		required("subject", func() { id.Subject = p.subject() }),
		required("namespace", func() { id.Namespace = p.namespace() }),
		required("authkey", func() { id.AuthKey = AuthKey{raw: p.rawObject()} }),
		required("rights", func() { id.Rights = p.rights() }),
		required("limits", func() { id.Limits = p.userLimits() }),
	)
	return id
}

func (p *parser) subject() string {
	s := p.str()
	if p.err == nil && len(s) < minSubjectLength {
		p.failf("want a subject of at least %d characters", minSubjectLength)
	}
	return s
}

func (p *parser) name() string {
	s := p.str()
	if p.err == nil && !ValidName(s) {
		p.failf("want an entity name")
	}
	return s
}

func (p *parser) namespace() Namespace {
	var n Namespace
	p.fields(
		required("name", func() { n.Name = p.name() }),
		required("uuid", func() { n.UUID = p.str() }),
	)
	return n
}

func (p *parser) rawObject() json.RawMessage {
	if p.peek() != '{' {
		p.want("an object")
		return nil
	}
	return p.raw()
}

// privileges are the rights that the original knows; it reads them in any
// case.
var privileges = [...]string{"READ", "PUT", "DELETE", "ACTIVATE", "REJECT"}

func (p *parser) rights() []string {
	rights := make([]string, 0, 4) // an ordinary user has four
	p.array(func() {
		word := p.str()
		for _, known := range privileges {
			if strings.EqualFold(word, known) {
				rights = append(rights, known)
				return
			}
		}
		p.failf("unknown right")
	})
	return rights
}

func (i Identity) append(dst []byte) []byte {
	o := newObject(dst)
	o.raw("authkey", i.AuthKey.JSON())
	o.key("limits")
	o.out = i.Limits.append(o.out)
	o.key("namespace")
	n := newObject(o.out)
	n.str("name", i.Namespace.Name)
	n.str("uuid", i.Namespace.UUID)
	o.out = n.end()
	o.strs("rights", i.Rights)
	o.str("subject", i.Subject)
	return o.end()
}
