// Package entity holds the entities that users create through OpenWhisk's REST API:
// actions and packages. An Entity is its own database document. A PUT
// changes it as OpenWhisk's controller does, and the answer is the document without the
// members that only the database needs.
//
// The package is pure: documents are passed as bytes, and there are no goroutines. The
// values of parameters and annotations stay the JSON that the user wrote. Package
// activation describes activations.
package entity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// ErrOtherKind is a document that is not of the kind asked for: a package
// where an action was named.
var ErrOtherKind = errors.New("document is of another kind")

// Kind is a kind of entity, as documents name it.
type Kind string

// The kinds.
const (
	Action  Kind = "action"
	Package Kind = "package"
)

// Entity is an action or a package. The members are in alphabetical order,
// as in OpenWhisk's answers. Members that the entity's kind does not have are zero.
type Entity struct {
	ID          string          `json:"_id,omitempty"`    // the full name
	Rev         string          `json:"_rev,omitempty"`   // empty when it is new
	Actions     []member        `json:"actions,omitzero"` // of a package, in answers
	Annotations Parameters      `json:"annotations"`
	Binding     *Binding        `json:"binding,omitempty"` // of a package
	Kind        Kind            `json:"entityType,omitempty"`
	Exec        *Exec           `json:"exec,omitempty"` // of an action
	Feeds       []member        `json:"feeds,omitzero"` // of a package, in answers
	Limits      *Limits         `json:"limits,omitempty"`
	Name        string          `json:"name"`
	Namespace   string          `json:"namespace"` // namespace, or namespace/package
	Parameters  Parameters      `json:"parameters"`
	Publish     bool            `json:"publish"`
	Updated     int64           `json:"updated"` // epoch milliseconds
	Version     string          `json:"version"`
	Attachments json.RawMessage `json:"_attachments,omitempty"` // stubs, by which the database keeps the contents
}

// member is an action of a package as its answer lists it.
type member struct {
	Annotations Parameters `json:"annotations"`
	Name        string     `json:"name"`
	Version     string     `json:"version"`
}

// Binding is the package that a package stands for, empty for none.
type Binding struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// Limits holds the limits of an action.
type Limits struct{ activation.Limits }

// UnmarshalJSON sets the limits in b and keeps the other limits.
func (l *Limits) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &struct {
		Timeout     *int `json:"timeout"`
		Memory      *int `json:"memory"`
		Logs        *int `json:"logs"`
		Concurrency *int `json:"concurrency"`
		Instances   *int `json:"instances"`
	}{&l.TimeoutMillis, &l.MemoryMB, &l.LogsMB, &l.Concurrency, &l.Instances})
}

// MarshalJSON writes all limits.
func (l Limits) MarshalJSON() ([]byte, error) { return l.JSON(), nil }

// New returns an entity with only the members that every entity of the kind has.
func New(kind Kind, ref Ref) *Entity {
	e := &Entity{ID: ref.String(), Kind: kind, Namespace: ref.Path, Name: ref.Name, Parameters: Parameters{}}
	switch kind {
	case Action:
		e.Limits = &Limits{activation.Limits{TimeoutMillis: 60_000, MemoryMB: 256, LogsMB: 10, Concurrency: 1}}
	case Package:
		e.Binding = &Binding{}
	}
	return e
}

// Decode decodes the document of an entity. The error is ErrOtherKind if the entity has
// another kind.
func Decode(kind Kind, doc []byte) (*Entity, error) {
	e := New(kind, Ref{})
	e.Kind, e.Binding = "", nil // as the document has them
	if err := json.Unmarshal(doc, e); err != nil {
		return nil, fmt.Errorf("decode %s: %w", kind, err)
	}
	e.ID = e.Namespace + "/" + e.Name
	if e.Kind != "" && e.Kind != kind || !e.hasMembersOf(kind) {
		return nil, fmt.Errorf("%w: %s is no %s", ErrOtherKind, e.ID, kind)
	}
	e.Kind = kind
	return e, nil
}

// hasMembersOf tells the kinds of old documents, which do not name theirs.
func (e *Entity) hasMembersOf(kind Kind) bool {
	if kind == Action {
		return e.Exec != nil
	}
	return e.Binding != nil
}

// Document writes the entity for the database, with the stubs of attachments where its
// code is one.
func (e Entity) Document() []byte {
	if e.Exec == nil || e.Exec.Attachment == nil {
		e.Attachments = nil
	}
	return mustMarshal(e)
}

// Answer writes the entity for a user, without the attachment of code that is
// stored apart.
func (e Entity) Answer() []byte {
	e.ID, e.Rev, e.Kind, e.Attachments = "", "", "", nil
	if e.Exec != nil {
		exec := *e.Exec
		exec.Attachment = nil
		e.Exec = &exec
	}
	return mustMarshal(e)
}

// AnswerBare leaves the code out.
func (e Entity) AnswerBare() []byte {
	exec := *e.Exec
	exec.Code = nil
	e.Exec = &exec
	return e.Answer()
}

// AnswerPackage writes a package with its actions, by their summaries from the
// database's view. An action annotated as a feed is listed among the feeds.
func (e Entity) AnswerPackage(summaries []json.RawMessage) ([]byte, error) {
	e.Actions, e.Feeds = []member{}, []member{}
	for _, summary := range summaries {
		var m member
		if err := json.Unmarshal(summary, &m); err != nil {
			return nil, fmt.Errorf("decode action summary: %w", err)
		}
		if m.Annotations.Truthy("feed") {
			e.Feeds = append(e.Feeds, m)
		} else {
			e.Actions = append(e.Actions, m)
		}
	}
	return e.Answer(), nil
}

// Ref is the entity's name.
func (e *Entity) Ref() Ref { return Ref{e.Namespace, e.Name} }

// Bound is the package that a package stands for, nil for none.
func (e *Entity) Bound() *Ref {
	if e.Binding == nil || e.Binding.Name == "" {
		return nil
	}
	return &Ref{e.Binding.Namespace, e.Binding.Name}
}

// Marshal writes JSON as OpenWhisk does: nothing escaped that need not be.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode as JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// mustMarshal encodes a value. It panics on an error, which cannot happen with values
// that were checked when they were decoded.
func mustMarshal(v any) []byte {
	b, err := Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
