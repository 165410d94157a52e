package entity

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// States of a rule.
const (
	Active   = "active"
	Inactive = "inactive"
)

// Link is a rule as its trigger knows it.
type Link struct {
	Action Ref    `json:"action"`
	Status string `json:"status"`
}

// Trigger is a named event that rules react to. Which rules is noted in the
// trigger itself, by full name.
type Trigger struct {
	Head
	Parameters Parameters
	Rules      map[string]Link // nil: it never had one
}

// DecodeTrigger reads a trigger's document.
func DecodeTrigger(doc []byte) (*Trigger, error) {
	var d struct {
		headJSON
		Parameters Parameters      `json:"parameters"`
		Rules      map[string]Link `json:"rules"`
		Exec       json.RawMessage `json:"exec"`
		Binding    json.RawMessage `json:"binding"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, fmt.Errorf("decode trigger: %w", err)
	}
	head, err := d.head("trigger")
	if err != nil {
		return nil, err
	}
	if d.Exec != nil || d.Binding != nil {
		return nil, fmt.Errorf("%w: a trigger has no exec and no binding", ErrOtherKind)
	}
	return &Trigger{Head: head, Parameters: d.Parameters, Rules: d.Rules}, nil
}

// Encode writes the trigger.
func (t *Trigger) Encode(l Layout) []byte {
	o := t.begin(l)
	o.annotations(t.Annotations)
	entityType(&o, l, "trigger")
	o.raw("limits", []byte("{}"))
	o.str("name", t.Name)
	o.str("namespace", t.Namespace)
	t.Parameters.append(&o)
	o.bool("publish", t.Publish)
	if t.Rules != nil {
		o.raw("rules", t.rules())
	}
	o.int("updated", t.Updated)
	o.str("version", t.Version.String())
	return o.end()
}

func (t *Trigger) rules() []byte {
	o := newObject(nil)
	for _, name := range slices.Sorted(maps.Keys(t.Rules)) {
		link := t.Rules[name]
		o.key(name)
		inner := newObject(o.out)
		link.Action.append(&inner, "action")
		inner.str("status", link.Status)
		o.out = inner.end()
	}
	return o.end()
}

// SetRule notes a rule, or its new action or state.
func (t *Trigger) SetRule(rule string, link Link) {
	rules := maps.Clone(t.Rules)
	if rules == nil {
		rules = map[string]Link{}
	}
	rules[rule] = link
	t.Rules = rules
}

// DropRule forgets a rule.
func (t *Trigger) DropRule(rule string) {
	t.Rules = maps.Clone(t.Rules)
	delete(t.Rules, rule)
}

// Status is the state of a rule: inactive if the trigger does not know it.
func (t *Trigger) Status(rule string) string {
	if t == nil {
		return Inactive
	}
	if link, ok := t.Rules[rule]; ok {
		return link.Status
	}
	return Inactive
}

// TriggerPut is the body of a PUT of a trigger.
type TriggerPut struct {
	Parameters  *Parameters     `json:"parameters"`
	Version     *string         `json:"version"`
	Publish     *bool           `json:"publish"`
	Annotations *annotationList `json:"annotations"`
}

// DecodeTriggerPut reads the body.
func DecodeTriggerPut(body []byte) (*TriggerPut, error) {
	var put TriggerPut
	if err := decodeBody(body, &put); err != nil {
		return nil, err
	}
	if put.Parameters != nil && put.Parameters.size() > maxParameterBytes {
		return nil, &TooLarge{"parameters", put.Parameters.size(), maxParameterBytes}
	}
	return &put, nil
}

// Create makes the trigger that the PUT describes.
func (put *TriggerPut) Create(ref Ref, now int64) (*Trigger, error) {
	t := &Trigger{Head: Head{Namespace: ref.Path, Name: ref.Name, Version: activation.SemVer{Patch: 1}, Updated: now}}
	if err := put.finish(t); err != nil {
		return nil, err
	}
	if feed, ok := t.Annotations.Get("feed"); ok {
		var name string
		if json.Unmarshal(feed, &name) != nil {
			return nil, &BadRequest{"Feed name is not valid"}
		}
		if _, err := activation.ParsePath(name); err != nil {
			return nil, &BadRequest{"Feed name is not valid"}
		}
	}
	return t, nil
}

// Update merges the PUT into the trigger as it is.
func (put *TriggerPut) Update(old *Trigger, now int64) (*Trigger, error) {
	t := *old
	t.Version = old.Version.Next()
	t.Updated = now
	return &t, put.finish(&t)
}

func (put *TriggerPut) finish(t *Trigger) error {
	if put.Parameters != nil {
		t.Parameters = *put.Parameters
	}
	if put.Annotations != nil {
		t.Annotations = activation.Annotations(*put.Annotations)
	}
	return t.setCommon(put.Version, put.Publish)
}

// Rule says that a trigger's event runs an action. Its state lies in the
// trigger.
type Rule struct {
	Head
	Trigger Ref
	Action  Ref
}

// DecodeRule reads a rule's document.
func DecodeRule(doc []byte) (*Rule, error) {
	var d struct {
		headJSON
		Trigger *Ref `json:"trigger"`
		Action  *Ref `json:"action"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, fmt.Errorf("decode rule: %w", err)
	}
	head, err := d.head("rule")
	if err != nil {
		return nil, err
	}
	if d.Trigger == nil || d.Action == nil {
		return nil, fmt.Errorf("%w: a rule names a trigger and an action", ErrOtherKind)
	}
	return &Rule{head, *d.Trigger, *d.Action}, nil
}

// Encode writes the rule; status is only in an answer, and there only if it is
// given.
func (r *Rule) Encode(l Layout, status string) []byte {
	o := r.begin(l)
	r.Action.append(&o, "action")
	o.annotations(r.Annotations)
	entityType(&o, l, "rule")
	o.str("name", r.Name)
	o.str("namespace", r.Namespace)
	o.bool("publish", r.Publish)
	if status != "" && l == ForAnswer {
		o.str("status", status)
	}
	r.Trigger.append(&o, "trigger")
	o.int("updated", r.Updated)
	o.str("version", r.Version.String())
	return o.end()
}

// RulePut is the body of a PUT of a rule.
type RulePut struct {
	Trigger     *Ref            `json:"trigger"`
	Action      *Ref            `json:"action"`
	Version     *string         `json:"version"`
	Publish     *bool           `json:"publish"`
	Annotations *annotationList `json:"annotations"`
}

// DecodeRulePut reads the body; home is the namespace that "_" means.
func DecodeRulePut(body []byte, home string) (*RulePut, error) {
	var put RulePut
	if err := decodeBody(body, &put); err != nil {
		return nil, err
	}
	for _, ref := range []*Ref{put.Trigger, put.Action} {
		if ref != nil {
			*ref = ref.Resolve(home)
		}
	}
	return &put, nil
}

// Create makes the rule that the PUT describes.
func (put *RulePut) Create(ref Ref, now int64) (*Rule, error) {
	if put.Trigger == nil || put.Action == nil {
		return nil, &BadRequest{"rule requires a valid trigger and a valid action"}
	}
	r := &Rule{Head{Namespace: ref.Path, Name: ref.Name, Version: activation.SemVer{Patch: 1}, Updated: now}, *put.Trigger, *put.Action}
	return r, put.finish(r)
}

// Update merges the PUT into the rule as it is.
func (put *RulePut) Update(old *Rule, now int64) (*Rule, error) {
	r := *old
	r.Version = old.Version.Next()
	r.Updated = now
	if put.Trigger != nil {
		r.Trigger = *put.Trigger
	}
	if put.Action != nil {
		r.Action = *put.Action
	}
	return &r, put.finish(&r)
}

func (put *RulePut) finish(r *Rule) error {
	if put.Annotations != nil {
		r.Annotations = activation.Annotations(*put.Annotations)
	}
	return r.setCommon(put.Version, put.Publish)
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
