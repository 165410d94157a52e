package activation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// What can be wrong with an action's document. The invoker answers each with
// its own text.
var (
	// ErrIncompatible is a document that is no action, or one that cannot be
	// read as such.
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

const (
	hasRev = 1 << iota
	hasActionNamespace
	hasActionName
	hasExec
	hasParameters
	hasActionLimits
	hasActionVersion
	hasActionPublish
	hasActionAnnotations
	hasUpdated
	wholeAction = 1<<iota - 1
)

// draft is an action of which not everything is resolved.
type draft struct {
	action     Action
	exec       execFields
	entityType string
	attached   []string // names in _attachments
	stubs      bool
}

// DecodeAction reads the document of an action and resolves it against the
// runtimes. Code that is held in the attachment's name is put in place; if
// Exec.Attachment is still set then, its bytes must be fetched. The error is
// an ErrIncompatible or an ErrUnfetchable.
func DecodeAction(doc []byte, m *Manifest) (*Action, error) {
	var d draft
	seen := 0
	p := newParser(doc)
	p.object(func(key string) { seen |= d.member(p, key) })
	if p.err == nil && d.entityType != "" && d.entityType != "action" {
		return nil, fmt.Errorf("%w: entity type %q", ErrIncompatible, d.entityType)
	}
	p.require(seen == wholeAction, "_rev, namespace, name, exec, parameters, limits, version, "+
		"publish, annotations and updated")
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIncompatible, err)
	}
	return d.resolve(m)
}

func (d *draft) resolve(m *Manifest) (*Action, error) {
	exec, err := m.resolve(d.exec)
	if err != nil {
		return nil, err
	}
	if a := exec.Attachment; a != nil && a.Scheme == InName {
		exec = exec.WithCode(a.inline)
	} else if a != nil && d.stubs && (len(d.attached) != 1 || d.attached[0] != a.Name) {
		return nil, fmt.Errorf("%w: the document's attachment is not the one it names", ErrUnfetchable)
	}
	d.action.Exec = exec
	a := d.action
	return &a, nil
}

func (d *draft) member(p *parser, key string) int {
	a := &d.action
	switch key {
	case "_id":
		a.ID = p.str()
	case "_rev":
		a.Rev = p.str()
		return hasRev
	case "namespace":
		a.Namespace = p.path()
		return hasActionNamespace
	case "name":
		a.Name = p.name()
		return hasActionName
	case "exec":
		d.exec = p.exec()
		return hasExec
	case "parameters":
		a.Parameters = p.parameters()
		return hasParameters
	case "limits":
		a.Limits = p.limits()
		return hasActionLimits
	case "version":
		a.Version = p.version()
		return hasActionVersion
	case "publish":
		a.Publish = p.bool()
		return hasActionPublish
	case "annotations":
		a.Annotations = p.annotations()
		return hasActionAnnotations
	case "updated":
		a.Updated = p.instant()
		return hasUpdated
	default:
		d.optional(p, key)
	}
	return 0
}

func (d *draft) optional(p *parser, key string) {
	switch {
	case p.null():
	case key == "entityType":
		// A wrong type is told before anything that is missing for it.
		d.entityType = p.str()
	case key == "_attachments":
		d.stubs = true
		p.object(func(name string) {
			d.attached = append(d.attached, strings.TrimPrefix(name, "couch:"))
			p.rawObject()
		})
	default:
		p.skip()
	}
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
		var key, value bool
		p.object(func(k string) {
			switch {
			case k == "key":
				x.Key, key = p.str(), true
			case k == "value":
				x.Value, value = p.raw(), true
			case p.null():
			case k == "init":
				x.Init = p.bool()
			case k == "encryption":
				x.Encryption = p.str()
			default:
				p.skip()
			}
		})
		p.require(key && value, "key and value")
		all = append(all, x)
	})
	return all
}
