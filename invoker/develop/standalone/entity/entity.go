// Package entity holds the things that users create through OpenWhisk's REST
// API: actions, packages, triggers and rules. It reads them from a database
// document or from the body of a PUT, merges the two as OpenWhisk's controller
// does, and writes them for the database or for the answer.
//
// It is not where activations are described (package activation is), and it
// opens nothing: documents come and go as bytes. It is pure and starts no
// goroutine. The values of parameters and annotations stay the JSON that their
// user wrote.
package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// BadRequest is a PUT with wrong content. Its text is for the user.
type BadRequest struct{ Text string }

// Error is the text.
func (e *BadRequest) Error() string { return e.Text }

// malformed puts OpenWhisk's text before an error in the content.
func malformed(format string, args ...any) error {
	return &BadRequest{"The request content was malformed:\n" + fmt.Sprintf(format, args...)}
}

// TooLarge is a PUT with a field of more bytes than allowed.
type TooLarge struct {
	Field       string
	Is, Allowed int
}

// Error is the text OpenWhisk answers with.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("%s larger than allowed: %d > %d bytes.", e.Field, e.Is, e.Allowed)
}

// ErrOtherKind is a document that is not of the kind asked for: a package
// where an action was named.
var ErrOtherKind = errors.New("document is of another kind")

// Sizes that OpenWhisk's controller allows.
const (
	maxExecBytes      = 48 << 20
	maxParameterBytes = 1 << 20
)

// Kind is a kind of entity, as documents name it.
type Kind string

// The kinds.
const (
	Action  Kind = "action"
	Package Kind = "package"
	Trigger Kind = "trigger"
	Rule    Kind = "rule"
)

// Entity is an action, package, trigger or rule. Fields that its kind lacks are
// zero.
type Entity struct {
	Kind        Kind
	Rev         string // of the document; empty when it is new
	Namespace   string // namespace, or namespace/package
	Name        string
	Version     activation.SemVer
	Publish     bool
	Annotations Parameters
	Updated     int64 // epoch milliseconds
	Parameters  Parameters

	// Of an action.
	Exec   Exec
	Limits activation.Limits
	Stubs  json.RawMessage // of its attachments, which the database keeps if they are written again

	// Binding is the package that a package stands for, nil for none.
	Binding *Ref

	// Rules are those of a trigger by full name; nil: it never had one.
	Rules map[string]Link

	// TriggerRef and ActionRef are what a rule connects. Its state lies in the
	// trigger.
	TriggerRef, ActionRef Ref
}

// Link is a rule as its trigger holds it.
type Link struct {
	Action Ref    `json:"action"`
	Status string `json:"status"`
}

// States of a rule.
const (
	Active   = "active"
	Inactive = "inactive"
)

// ID is the id of the entity's document, which is also its full name.
func (e *Entity) ID() string { return e.Namespace + "/" + e.Name }

// Ref is the entity's name.
func (e *Entity) Ref() Ref { return Ref{e.Namespace, e.Name} }

// SetRule adds a rule to a trigger, or its new action or state.
func (e *Entity) SetRule(rule string, link Link) {
	rules := maps.Clone(e.Rules)
	if rules == nil {
		rules = map[string]Link{}
	}
	rules[rule] = link
	e.Rules = rules
}

// DropRule removes a rule from a trigger.
func (e *Entity) DropRule(rule string) {
	e.Rules = maps.Clone(e.Rules)
	delete(e.Rules, rule)
}

// RuleStatus is the state of a rule: inactive if the trigger, which may be nil,
// does not have it.
func (e *Entity) RuleStatus(rule string) string {
	if e != nil {
		if link, ok := e.Rules[rule]; ok {
			return link.Status
		}
	}
	return Inactive
}

// Ref names an entity.
type Ref struct {
	Path string // namespace, or namespace/package
	Name string
}

// String is path and name with a slash between, as ids are.
func (r Ref) String() string { return r.Path + "/" + r.Name }

// Namespace is the first segment of the path.
func (r Ref) Namespace() string {
	ns, _, _ := strings.Cut(r.Path, "/")
	return ns
}

// Package is the second segment of the path, empty for the default package.
func (r Ref) Package() string {
	_, pkg, _ := strings.Cut(r.Path, "/")
	return pkg
}

// PackageRef is the package that the entity is in; its name is empty for the
// default package.
func (r Ref) PackageRef() Ref { return Ref{r.Namespace(), r.Package()} }

// ParseRef reads a full name, with or without a slash before it, and puts home
// in place of "_".
func ParseRef(s, home string) (Ref, error) {
	parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(s), "/"), "/")
	if len(parts) < 2 || len(parts) > 3 {
		return Ref{}, malformed("The fully qualified name of the entity must contain at least the namespace and the name of the entity.")
	}
	if parts[0] == "_" {
		parts[0] = home
	}
	for _, p := range parts {
		if !activation.ValidName(p) {
			return Ref{}, malformed("The name of the entity contains illegal characters.")
		}
	}
	last := len(parts) - 1
	return Ref{strings.Join(parts[:last], "/"), parts[last]}, nil
}

// UnmarshalJSON reads a name as text or as an object of path and name.
func (r *Ref) UnmarshalJSON(b []byte) error {
	var o struct{ Path, Name string }
	if err := json.Unmarshal(b, &o); err == nil {
		*r = Ref{o.Path, o.Name}
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return malformed("the name of an entity is text, or an object of path and name")
	}
	// The home namespace is not known here: "_" stays until Resolve.
	ref, err := ParseRef(s, "_")
	if err != nil {
		return err
	}
	*r = ref
	return nil
}

// Resolve puts home in place of "_" in the path.
func (r Ref) Resolve(home string) Ref {
	if r.Namespace() == "_" {
		r.Path = home + r.Path[1:]
	}
	return r
}

// MarshalJSON writes an object of name and path.
func (r Ref) MarshalJSON() ([]byte, error) {
	return Marshal(struct {
		Name string `json:"name"`
		Path string `json:"path"`
	}{r.Name, r.Path})
}
