package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Put is the body of a PUT of an entity. Absent fields are nil.
type Put struct {
	Parameters     *Parameters     `json:"parameters"`
	Version        *string         `json:"version"`
	Publish        *bool           `json:"publish"`
	Annotations    *annotationList `json:"annotations"`
	DelAnnotations []string        `json:"delAnnotations"` // of an action
	Exec           *Exec           `json:"exec"`
	Limits         limitsJSON      `json:"limits"`
	Binding        *bindingJSON    `json:"binding"`
	Trigger        *Ref            `json:"trigger"`
	Action         *Ref            `json:"action"`
}

// DecodePut reads the body and checks sizes and the action's kind. home is the
// namespace in place of "_".
func DecodePut(body []byte, home string, m *activation.Manifest) (*Put, error) {
	var put Put
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
	if a := (*Parameters)(put.Annotations); a != nil && a.size() > maxParameterBytes {
		return nil, &TooLarge{"annotations", a.size(), maxParameterBytes}
	}
	for _, ref := range []*Ref{put.Trigger, put.Action} {
		if ref != nil {
			*ref = ref.Resolve(home)
		}
	}
	return &put, nil
}

// Bound is the package that the PUT binds, nil when it binds none.
func (put *Put) Bound(home string) *Ref { return put.Binding.ref(home) }

// Create makes the entity that the PUT describes. bounds are those of its user
// for limits; now is in epoch milliseconds.
func (put *Put) Create(kind Kind, ref Ref, bounds activation.Bounds, now int64) (*Entity, error) {
	e := &Entity{Kind: kind, Namespace: ref.Path, Name: ref.Name, Version: activation.SemVer{Patch: 1}, Updated: now, Parameters: Parameters{}}
	put.replace(e)
	switch kind {
	case Action:
		if put.Exec == nil {
			return nil, &BadRequest{"exec undefined"}
		}
		e.Exec, e.Limits = *put.Exec, put.Limits.over(DefaultLimits())
		if _, ok := e.Annotations.Get("provide-api-key"); !ok {
			e.annotate("provide-api-key", json.RawMessage("false"))
		}
	case Trigger:
		if feed, ok := e.Annotations.Get("feed"); ok && !isFeed(feed) {
			return nil, &BadRequest{"Feed name is not valid"}
		}
	case Rule:
		if put.Trigger == nil || put.Action == nil {
			return nil, &BadRequest{"rule requires a valid trigger and a valid action"}
		}
	}
	return put.finish(e, bounds)
}

func isFeed(annotation json.RawMessage) bool {
	var name string
	if json.Unmarshal(annotation, &name) != nil {
		return false
	}
	_, err := activation.ParsePath(name)
	return err == nil
}

// Update merges the PUT into the entity as it is.
func (put *Put) Update(old *Entity, bounds activation.Bounds, now int64) (*Entity, error) {
	e := *old
	e.Version, e.Updated = old.Version.Next(), now
	if e.Kind == Action {
		put.updateAction(&e, old)
		return put.finish(&e, bounds)
	}
	put.replace(&e)
	return put.finish(&e, bounds)
}

// replace puts the parameters and annotations that are given in place.
func (put *Put) replace(e *Entity) {
	if put.Parameters != nil {
		e.Parameters = *put.Parameters
	}
	if put.Annotations != nil {
		e.Annotations = Parameters(*put.Annotations)
	}
}

// updateAction keeps the annotations that are not named. What a sequence had
// for parameters are not arguments.
func (put *Put) updateAction(a, old *Entity) {
	a.Limits = put.Limits.over(old.Limits)
	if put.Exec != nil {
		a.Exec = *put.Exec
	}
	switch {
	case put.Exec != nil && old.Exec.IsSequence() && put.Parameters == nil:
		a.Parameters = nil
	case put.Exec == nil && old.Exec.IsSequence():
	case put.Parameters != nil:
		a.Parameters = *put.Parameters
	}
	for _, key := range put.DelAnnotations {
		a.Annotations = a.Annotations.without(key)
	}
	if put.Annotations != nil {
		a.Annotations = Parameters(*put.Annotations).Over(a.Annotations)
	}
}

// finish applies what holds for new and old entities alike.
func (put *Put) finish(e *Entity, bounds activation.Bounds) (*Entity, error) {
	if put.Version != nil {
		v, err := activation.ParseSemVer(*put.Version)
		if err != nil {
			return nil, malformed("%v", err)
		}
		e.Version = v
	}
	if put.Publish != nil {
		e.Publish = *put.Publish
	}
	switch e.Kind {
	case Action:
		if err := bounds.Check(e.Limits); err != nil {
			return nil, malformed("%v", err)
		}
		e.annotate("exec", activation.AppendString(nil, e.Exec.Kind))
		if e.Exec.IsSequence() {
			components, err := Marshal(e.Exec.Components)
			if err != nil {
				return nil, err
			}
			e.Parameters = Parameters{{Key: "_actions", Value: components}}
		}
	case Package:
		if b := put.Bound(Ref{Path: e.Namespace}.Namespace()); b != nil {
			e.Binding = b
		}
		return e, e.annotateBinding()
	case Rule:
		if put.Trigger != nil {
			e.TriggerRef = *put.Trigger
		}
		if put.Action != nil {
			e.ActionRef = *put.Action
		}
	}
	return e, nil
}

// annotateBinding repeats the binding among the annotations: lists have these
// and no bindings (Packages.scala, bindingAnnotation).
func (e *Entity) annotateBinding() error {
	e.Annotations = e.Annotations.without("binding")
	if e.Binding == nil {
		return nil
	}
	text, err := Marshal(bindingOf(e.Binding))
	if err != nil {
		return err
	}
	e.annotate("binding", text)
	return nil
}

func (e *Entity) annotate(key string, value json.RawMessage) {
	e.Annotations = e.Annotations.Set(activation.Parameter{Key: key, Value: value})
}

// DecodeStatus reads the body that switches a rule on or off.
func DecodeStatus(body []byte) (string, error) {
	var s struct {
		Status string `json:"status"`
	}
	if err := decodeBody(body, &s); err != nil {
		return "", err
	}
	if s.Status != Active && s.Status != Inactive {
		return "", malformed("'%s' is not a recognized rule state", s.Status)
	}
	return s.Status, nil
}

// decodeBody reads JSON from a user. Errors are for the user to read.
func decodeBody(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	var bad *BadRequest
	if errors.As(err, &bad) { // from an UnmarshalJSON of ours
		return bad
	}
	return malformed("%s", inWords(err))
}

// inWords words an error of the decoder for a user, without Go's types.
func inWords(err error) string {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Sprintf("want %s, got JSON %s", wanted(wrong.Type), wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Sprintf("'%s' must be %s, got JSON %s", wrong.Field, wanted(wrong.Type), wrong.Value)
	case errors.As(err, &syntax):
		return fmt.Sprintf("not JSON from byte %d on: %v", syntax.Offset, syntax)
	}
	return err.Error()
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}
