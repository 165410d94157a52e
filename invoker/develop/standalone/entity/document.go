package entity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// document is an entity as the database and the answers have it. Members come
// in the order of their names, as in OpenWhisk's answers.
type document struct {
	ID          string             `json:"_id,omitempty"`
	Rev         string             `json:"_rev,omitempty"`
	Action      *Ref               `json:"action,omitempty"`
	Actions     *[]json.RawMessage `json:"actions,omitempty"`
	Annotations Parameters         `json:"annotations"`
	Binding     *bindingJSON       `json:"binding,omitempty"`
	EntityType  Kind               `json:"entityType,omitempty"`
	Exec        *Exec              `json:"exec,omitempty"`
	Feeds       *[]json.RawMessage `json:"feeds,omitempty"`
	Limits      json.RawMessage    `json:"limits,omitempty"`
	Name        string             `json:"name"`
	Namespace   string             `json:"namespace"`
	Parameters  *Parameters        `json:"parameters,omitempty"`
	Publish     bool               `json:"publish"`
	Rules       map[string]Link    `json:"rules,omitzero"`
	Status      string             `json:"status,omitempty"`
	Trigger     *Ref               `json:"trigger,omitempty"`
	Updated     json.Number        `json:"updated"`
	Version     string             `json:"version"`
	Attachments json.RawMessage    `json:"_attachments,omitempty"`
}

// bindingJSON is empty for a package.
type bindingJSON struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

func bindingOf(r *Ref) *bindingJSON {
	if r == nil {
		return &bindingJSON{}
	}
	return &bindingJSON{r.Name, r.Path}
}

func (b *bindingJSON) ref(home string) *Ref {
	if b == nil || b.Name == "" {
		return nil
	}
	ns := b.Namespace
	if ns == "" || ns == "_" {
		ns = home
	}
	return &Ref{ns, b.Name}
}

// limitsJSON is what a PUT or a document has of limits.
type limitsJSON struct {
	Timeout     *int `json:"timeout"`
	Memory      *int `json:"memory"`
	Logs        *int `json:"logs"`
	Concurrency *int `json:"concurrency"`
	Instances   *int `json:"instances"`
}

// DefaultLimits are those of an action that names none.
func DefaultLimits() activation.Limits {
	return activation.Limits{TimeoutMillis: 60_000, MemoryMB: 256, LogsMB: 10, Concurrency: 1}
}

// over lays the limits that are given over others.
func (l limitsJSON) over(base activation.Limits) activation.Limits {
	set := func(to, from *int) {
		if from != nil {
			*to = *from
		}
	}
	set(&base.TimeoutMillis, l.Timeout)
	set(&base.MemoryMB, l.Memory)
	set(&base.LogsMB, l.Logs)
	set(&base.Concurrency, l.Concurrency)
	set(&base.Instances, l.Instances)
	return base
}

// Decode reads the document of an entity. The error is ErrOtherKind if it is
// not of that kind.
func Decode(kind Kind, doc []byte) (*Entity, error) {
	var d document
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, fmt.Errorf("decode %s: %w", kind, err)
	}
	if !d.is(kind) {
		return nil, fmt.Errorf("%w: %s is no %s", ErrOtherKind, d.Namespace+"/"+d.Name, kind)
	}
	version, err := activation.ParseSemVer(d.Version)
	if err != nil {
		return nil, fmt.Errorf("decode %s %s/%s: %w", kind, d.Namespace, d.Name, err)
	}
	updated, _ := d.Updated.Int64() // a date in an old document counts as none
	e := &Entity{
		Kind: kind, Rev: d.Rev, Namespace: d.Namespace, Name: d.Name, Version: version, Publish: d.Publish,
		Annotations: d.Annotations, Updated: updated, Rules: d.Rules,
	}
	if d.Parameters != nil {
		e.Parameters = *d.Parameters
	}
	switch kind {
	case Action:
		var l limitsJSON
		if len(d.Limits) > 0 {
			if err := json.Unmarshal(d.Limits, &l); err != nil {
				return nil, fmt.Errorf("decode limits of %s: %w", e.ID(), err)
			}
		}
		e.Exec, e.Limits, e.Stubs = *d.Exec, l.over(DefaultLimits()), d.Attachments
	case Package:
		e.Binding = d.Binding.ref("")
	case Rule:
		e.TriggerRef, e.ActionRef = *d.Trigger, *d.Action
	}
	return e, nil
}

// is reports whether the document is of a kind, by its name and its members.
func (d *document) is(kind Kind) bool {
	if d.EntityType != "" && d.EntityType != kind {
		return false
	}
	switch kind {
	case Action:
		return d.Exec != nil
	case Package:
		return d.Binding != nil
	case Rule:
		return d.Trigger != nil && d.Action != nil
	}
	return d.Exec == nil && d.Binding == nil
}

// Document writes the entity for the database.
func (e *Entity) Document() []byte {
	d := e.document()
	d.ID, d.Rev, d.EntityType = e.ID(), e.Rev, e.Kind
	if e.Exec.Attachment != nil {
		d.Attachments = e.Stubs
	}
	return d.encode()
}

// Answer writes the entity for a user, without the attachment of code that is
// stored apart.
func (e *Entity) Answer() []byte { return e.answer().encode() }

// AnswerBare leaves the code out.
func (e *Entity) AnswerBare() []byte {
	d := e.answer()
	d.Exec.Code = nil
	return d.encode()
}

// AnswerRule writes a rule with its state.
func (e *Entity) AnswerRule(status string) []byte {
	d := e.document()
	d.Status = status
	return d.encode()
}

// AnswerPackage writes a package with its actions, by their summaries from the
// database's view. An action annotated as a feed is listed among the feeds.
func (e *Entity) AnswerPackage(summaries []json.RawMessage) ([]byte, error) {
	actions, feeds := []json.RawMessage{}, []json.RawMessage{}
	for _, summary := range summaries {
		var a struct {
			Annotations Parameters `json:"annotations"`
			Name        string     `json:"name"`
			Version     string     `json:"version"`
		}
		if err := json.Unmarshal(summary, &a); err != nil {
			return nil, fmt.Errorf("decode action summary: %w", err)
		}
		text, err := Marshal(a)
		if err != nil {
			return nil, err
		}
		if a.Annotations.Truthy("feed") {
			feeds = append(feeds, text)
		} else {
			actions = append(actions, text)
		}
	}
	d := e.document()
	d.Actions, d.Feeds = &actions, &feeds
	return d.encode(), nil
}

func (e *Entity) answer() *document {
	d := e.document()
	if d.Exec != nil {
		d.Exec.Attachment = nil
	}
	return d
}

func (e *Entity) document() *document {
	d := &document{
		Annotations: e.Annotations, Name: e.Name, Namespace: e.Namespace, Publish: e.Publish,
		Updated: json.Number(strconv.FormatInt(e.Updated, 10)), Version: e.Version.String(),
	}
	if e.Kind != Rule {
		d.Parameters = &e.Parameters
	}
	switch e.Kind {
	case Action:
		exec := e.Exec
		d.Exec, d.Limits = &exec, e.Limits.JSON()
	case Package:
		d.Binding = bindingOf(e.Binding)
	case Trigger:
		d.Limits, d.Rules = json.RawMessage("{}"), e.Rules
	case Rule:
		d.Action, d.Trigger = &e.ActionRef, &e.TriggerRef
	}
	return d
}

func (d *document) encode() []byte {
	text, err := Marshal(d)
	if err != nil {
		panic(err) // values were checked when they were read
	}
	return text
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
