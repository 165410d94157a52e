package entity

import (
	"encoding/json"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Sizes that OpenWhisk's controller allows.
const (
	maxExecBytes      = 48 << 20
	maxParameterBytes = 1 << 20
)

// Terms holds the inputs of a PUT other than its body and the entity.
type Terms struct {
	Home     string // the user's namespace, in place of "_"
	Manifest *activation.Manifest
	Bounds   activation.Bounds // those of the user for limits
	Now      int64             // epoch milliseconds
}

// put is the body of a PUT. Absent members are nil.
type put struct {
	Parameters     *Parameters     `json:"parameters"`
	Version        *string         `json:"version"`
	Publish        *bool           `json:"publish"`
	Annotations    *annotationList `json:"annotations"`
	DelAnnotations []string        `json:"delAnnotations"` // of an action
	Exec           *Exec           `json:"exec"`
	Limits         *Limits         `json:"limits"`
	Binding        *Binding        `json:"binding"`
}

// Put returns the next version of the entity, with the changes of a PUT's body. An
// entity without a version is new. The result shares the unchanged members with e.
func (e *Entity) Put(body []byte, t Terms) (*Entity, error) {
	made := *e
	version, _ := activation.ParseSemVer(e.Version) // zero when it is new
	made.Version, made.Updated = version.Next().String(), t.Now
	limits := Limits{}
	if e.Limits != nil {
		limits = *e.Limits
	}
	p := put{Version: &made.Version, Publish: &made.Publish, Limits: &limits}
	if err := decodeBody(body, &p); err != nil {
		return nil, err
	}
	if _, err := activation.ParseSemVer(made.Version); err != nil {
		return nil, Malformed("%v", err)
	}
	if p.Parameters != nil {
		if err := tooLarge("parameters", p.Parameters.size(), maxParameterBytes); err != nil {
			return nil, err
		}
	}
	if p.Annotations != nil {
		if err := tooLarge("annotations", Parameters(*p.Annotations).size(), maxParameterBytes); err != nil {
			return nil, err
		}
	}
	if made.Kind == Action {
		made.Limits = &limits
		return &made, p.action(&made, e, t)
	}
	if p.Annotations != nil {
		made.Annotations = Parameters(*p.Annotations)
	}
	if p.Parameters != nil {
		made.Parameters = *p.Parameters
	}
	p.bind(&made)
	return &made, nil
}

// action applies the body of a PUT to an action. Annotations that the body does not name
// are kept. The parameters of an old sequence are dropped, because they are not
// arguments.
func (p *put) action(a, old *Entity, t Terms) error {
	wasSequence := old.Exec != nil && old.Exec.IsSequence()
	switch {
	case p.Exec == nil && a.Exec == nil:
		return Bad("exec undefined")
	case p.Exec == nil && wasSequence:
	case p.Parameters != nil:
		a.Parameters = *p.Parameters
	case p.Exec != nil && wasSequence:
		a.Parameters = Parameters{}
	}
	if p.Exec != nil {
		if err := p.Exec.check(t.Home, t.Manifest); err != nil {
			return err
		}
		a.Exec = p.Exec
	}
	if err := t.Bounds.Check(a.Limits.Limits); err != nil {
		return Malformed("%v", err)
	}
	for _, key := range p.DelAnnotations {
		a.Annotations = a.Annotations.without(key)
	}
	if p.Annotations != nil {
		a.Annotations = Parameters(*p.Annotations).Over(a.Annotations)
	}
	if _, ok := a.Annotations.Get("provide-api-key"); !ok && old.Exec == nil {
		a.annotate("provide-api-key", json.RawMessage("false"))
	}
	a.annotate("exec", activation.AppendString(nil, a.Exec.Kind))
	if a.Exec.IsSequence() {
		a.Parameters = Parameters{{Key: "_actions", Value: mustMarshal(a.Exec.Components)}}
	}
	return nil
}

// bind repeats the binding among the annotations: lists have these and no
// bindings (Packages.scala, bindingAnnotation).
func (p *put) bind(pkg *Entity) {
	if b := p.Binding; b != nil && b.Name != "" {
		if b.Namespace == "" || b.Namespace == "_" {
			b.Namespace = pkg.Namespace
		}
		pkg.Binding = b
	}
	pkg.Annotations = pkg.Annotations.without("binding")
	if pkg.Bound() != nil {
		pkg.annotate("binding", mustMarshal(pkg.Binding))
	}
}

func (e *Entity) annotate(key string, value json.RawMessage) {
	e.Annotations = e.Annotations.Set(activation.Parameter{Key: key, Value: value})
}
