package activation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The faults of an action's document. The invoker answers each fault with its own
// text.
var (
	// ErrIncompatible means that the document is not an action or cannot be decoded.
	ErrIncompatible = errors.New("action document is not compatible")
	// ErrUnfetchable is an action that is one, but whose code cannot be had.
	ErrUnfetchable = errors.New("action cannot be fetched")
)

// Action is an action as the database keeps it.
type Action struct {
	ID          string // of the document
	Rev         string
	Namespace   string // namespace, or namespace/package
	Name        string
	Version     string
	Publish     bool
	Updated     int64 // epoch milliseconds, zero when written as a date
	Exec        Exec
	Limits      Limits
	Annotations Annotations
	Parameters  []Parameter
}

// Parameter is a default argument of an action.
type Parameter struct {
	Key        string
	Value      json.RawMessage
	Init       bool   // goes to /init only
	Encryption string // algorithm, empty for none
}

// FQN is the action's namespace and name.
func (a *Action) FQN() string { return a.Namespace + "/" + a.Name }

// draft is an action of which not everything is resolved.
type draft struct {
	action     Action
	exec       execFields
	entityType string
	attached   []string // names in _attachments; nil: it has none
}

// DecodeAction reads the document of an action and resolves it against the
// runtimes. Code that is held in the attachment's name is put in place; if
// Exec.Attachment is still set then, its bytes must be fetched. The error is
// an ErrIncompatible or an ErrUnfetchable.
func DecodeAction(doc []byte, m *Manifest) (*Action, error) {
	var d draft
	a := &d.action
	p := newParser(doc)
	p.fields(append(p.actionFields(a, &d.exec),
		optional("_id", func() { a.ID = p.str() }),
		required("_rev", func() { a.Rev = p.str() }),
		optional("entityType", func() { d.entityType = p.str() }),
		optional("_attachments", func() { d.attached = p.attachments() }),
	)...)
	// A wrong type is reported before the missing fields of an action.
	if d.entityType != "" && d.entityType != "action" {
		return nil, fmt.Errorf("%w: entity type %q", ErrIncompatible, d.entityType)
	}
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIncompatible, err)
	}
	return d.resolve(m)
}

// actionFields returns the fields that an action's document and its metadata share.
func (p *parser) actionFields(a *Action, e *execFields) []field {
	return []field{
		required("namespace", func() { a.Namespace = p.path() }),
		required("name", func() { a.Name = p.name() }),
		required("exec", func() { *e = p.exec() }),
		required("parameters", func() { a.Parameters = p.parameters() }),
		required("limits", func() { a.Limits = p.limits() }),
		required("version", func() { a.Version = p.version() }),
		required("publish", func() { a.Publish = p.bool() }),
		required("annotations", func() { a.Annotations = p.annotations() }),
		required("updated", func() { a.Updated = p.instant() }),
	}
}

func (d *draft) resolve(m *Manifest) (*Action, error) {
	exec, err := m.resolve(d.exec)
	if err != nil {
		return nil, err
	}
	if a := exec.Attachment; a != nil && a.Scheme == InName {
		exec = exec.WithCode(a.inline)
	} else if a != nil && d.attached != nil && (len(d.attached) != 1 || d.attached[0] != a.Name) {
		return nil, fmt.Errorf("%w: the document's attachment is not the one it names", ErrUnfetchable)
	}
	d.action.Exec = exec
	a := d.action
	return &a, nil
}

// attachments reads the names in _attachments; they are never nil.
func (p *parser) attachments() []string {
	names := []string{}
	p.object(func(name string) {
		names = append(names, strings.TrimPrefix(name, "couch:"))
		p.rawObject()
	})
	return names
}

// instant reads epoch milliseconds; a date in ISO form is taken but not kept.
func (p *parser) instant() int64 {
	if p.peek() == '"' {
		p.str()
		return 0
	}
	return p.integer()
}

func (p *parser) parameters() []Parameter {
	var all []Parameter
	p.array(func() {
		var x Parameter
		p.fields(
			required("key", func() { x.Key = p.str() }),
			required("value", func() { x.Value = p.raw() }),
			optional("init", func() { x.Init = p.bool() }),
			optional("encryption", func() { x.Encryption = p.str() }),
		)
		all = append(all, x)
	})
	return all
}
