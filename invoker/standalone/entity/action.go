package entity

import (
	"encoding/json"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Action is an action with everything but, perhaps, its code.
type Action struct {
	Head
	Exec       Exec
	Parameters Parameters
	Limits     activation.Limits
	// Stubs is what the document says of its attachments. It must be written
	// again for the database to keep them.
	Stubs json.RawMessage
}

// Ref is the action's name.
func (a *Action) Ref() Ref { return Ref{a.Namespace, a.Name} }

// DefaultLimits are those of an action that names none.
func DefaultLimits() activation.Limits {
	return activation.Limits{TimeoutMillis: 60_000, MemoryMB: 256, LogsMB: 10, Concurrency: 1}
}

// limitsJSON is what a PUT or a document says of limits.
type limitsJSON struct {
	Timeout     *int `json:"timeout"`
	Memory      *int `json:"memory"`
	Logs        *int `json:"logs"`
	Concurrency *int `json:"concurrency"`
	Instances   *int `json:"instances"`
}

// over lays the limits that are given over others.
func (l *limitsJSON) over(base activation.Limits) activation.Limits {
	if l == nil {
		return base
	}
	for _, one := range []struct {
		from *int
		to   *int
	}{
		{l.Timeout, &base.TimeoutMillis}, {l.Memory, &base.MemoryMB}, {l.Logs, &base.LogsMB},
		{l.Concurrency, &base.Concurrency}, {l.Instances, &base.Instances},
	} {
		if one.from != nil {
			*one.to = *one.from
		}
	}
	return base
}

// headJSON is what all documents share.
type headJSON struct {
	Rev         string         `json:"_rev"`
	EntityType  string         `json:"entityType"`
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	Publish     bool           `json:"publish"`
	Annotations annotationList `json:"annotations"`
	Updated     json.Number    `json:"updated"`
}

func (h *headJSON) head(want string) (Head, error) {
	if h.EntityType != "" && h.EntityType != want {
		return Head{}, fmt.Errorf("%w: %s, not %s", ErrOtherKind, h.EntityType, want)
	}
	version, err := activation.ParseSemVer(h.Version)
	if err != nil {
		return Head{}, fmt.Errorf("decode %s %s/%s: %w", want, h.Namespace, h.Name, err)
	}
	updated, _ := h.Updated.Int64() // a date in an old document counts as none
	return Head{
		Rev: h.Rev, Namespace: h.Namespace, Name: h.Name, Version: version,
		Publish: h.Publish, Annotations: activation.Annotations(h.Annotations), Updated: updated,
	}, nil
}

// DecodeAction reads an action's document.
func DecodeAction(doc []byte) (*Action, error) {
	var d struct {
		headJSON
		Exec       *Exec           `json:"exec"`
		Parameters Parameters      `json:"parameters"`
		Limits     *limitsJSON     `json:"limits"`
		Stubs      json.RawMessage `json:"_attachments"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, fmt.Errorf("decode action: %w", err)
	}
	head, err := d.head("action")
	if err != nil {
		return nil, err
	}
	if d.Exec == nil {
		return nil, fmt.Errorf("%w: no exec in an action", ErrOtherKind)
	}
	return &Action{Head: head, Exec: *d.Exec, Parameters: d.Parameters, Limits: d.Limits.over(DefaultLimits()), Stubs: d.Stubs}, nil
}

// Encode writes the action. In an answer the code is left out if it is not
// text, or if bare is set.
func (a *Action) Encode(l Layout, bare bool) []byte {
	o := a.begin(l)
	o.annotations(a.Annotations)
	entityType(&o, l, "action")
	o.key("exec")
	o.out = a.Exec.append(o.out, l, bare)
	o.raw("limits", a.Limits.JSON())
	o.str("name", a.Name)
	o.str("namespace", a.Namespace)
	a.Parameters.append(&o)
	o.bool("publish", a.Publish)
	o.int("updated", a.Updated)
	o.str("version", a.Version.String())
	if l == ForDatabase && a.Exec.Attachment != nil && a.Stubs != nil {
		o.raw("_attachments", a.Stubs)
	}
	return o.end()
}

// ActionPut is the body of a PUT of an action. Absent fields are nil.
type ActionPut struct {
	Exec           *Exec           `json:"exec"`
	Parameters     *Parameters     `json:"parameters"`
	Limits         *limitsJSON     `json:"limits"`
	Version        *string         `json:"version"`
	Publish        *bool           `json:"publish"`
	Annotations    *annotationList `json:"annotations"`
	DelAnnotations []string        `json:"delAnnotations"`
}

// DecodeActionPut reads the body and checks sizes and kind. home is the
// namespace that "_" means among the components of a sequence.
func DecodeActionPut(body []byte, home string, m *activation.Manifest) (*ActionPut, error) {
	var put ActionPut
	if err := decodeBody(body, &put); err != nil {
		return nil, err
	}
	if put.Exec != nil {
		if err := put.Exec.check(home, m); err != nil {
			return nil, err
		}
	}
	if put.Parameters != nil && put.Parameters.size() > maxParameterBytes {
		return nil, &TooLarge{"parameters", put.Parameters.size(), maxParameterBytes}
	}
	if put.Annotations != nil {
		if n := annotationSize(activation.Annotations(*put.Annotations)); n > maxParameterBytes {
			return nil, &TooLarge{"annotations", n, maxParameterBytes}
		}
	}
	return &put, nil
}

// Create makes the action that the PUT describes. bounds are those of its
// user; now is in epoch milliseconds.
func (put *ActionPut) Create(ref Ref, bounds activation.Bounds, now int64) (*Action, error) {
	if put.Exec == nil {
		return nil, &BadRequest{"exec undefined"}
	}
	a := &Action{
		Head:   Head{Namespace: ref.Path, Name: ref.Name, Version: activation.SemVer{Patch: 1}, Annotations: activation.Annotations{}, Updated: now},
		Exec:   *put.Exec,
		Limits: put.Limits.over(DefaultLimits()),
	}
	if put.Parameters != nil {
		a.Parameters = *put.Parameters
	}
	if put.Annotations != nil {
		a.Annotations = activation.Annotations(*put.Annotations)
	}
	if _, ok := a.Annotations.Get("provide-api-key"); !ok {
		a.Annotations = setAnnotation(a.Annotations, "provide-api-key", json.RawMessage("false"))
	}
	return put.finish(a, bounds)
}

// Update merges the PUT into the action as it is.
func (put *ActionPut) Update(old *Action, bounds activation.Bounds, now int64) (*Action, error) {
	a := *old
	a.Version = old.Version.Next()
	a.Updated = now
	a.Limits = put.Limits.over(old.Limits)
	if put.Exec != nil {
		a.Exec = *put.Exec
	}
	switch {
	case put.Exec != nil && old.Exec.IsSequence() && put.Parameters == nil:
		a.Parameters = nil // what a sequence had are not arguments
	case put.Exec == nil && old.Exec.IsSequence():
	case put.Parameters != nil:
		a.Parameters = *put.Parameters
	}
	for _, key := range put.DelAnnotations {
		a.Annotations = dropAnnotation(a.Annotations, key)
	}
	if put.Annotations != nil {
		for _, one := range *put.Annotations {
			a.Annotations = setAnnotation(a.Annotations, one.Key, one.Value)
		}
	}
	return put.finish(&a, bounds)
}

// finish applies what holds for new and old actions alike.
func (put *ActionPut) finish(a *Action, bounds activation.Bounds) (*Action, error) {
	if err := a.setCommon(put.Version, put.Publish); err != nil {
		return nil, err
	}
	if err := bounds.Check(a.Limits); err != nil {
		return nil, malformed("%v", err)
	}
	kind := activation.AppendString(nil, a.Exec.Kind)
	a.Annotations = setAnnotation(a.Annotations, "exec", kind)
	if a.Exec.IsSequence() {
		a.Parameters = Parameters{{Key: "_actions", Value: a.Exec.componentList()}}
	}
	return a, nil
}

// setCommon applies the fields that every kind of PUT may carry.
func (h *Head) setCommon(version *string, publish *bool) error {
	if version != nil {
		v, err := activation.ParseSemVer(*version)
		if err != nil {
			return malformed("%v", err)
		}
		h.Version = v
	}
	if publish != nil {
		h.Publish = *publish
	}
	return nil
}
