package entity

import (
	"encoding/json"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// SequenceKind is the kind of an action that is a list of others.
const SequenceKind = "sequence"

// Exec describes the code of an action.
type Exec struct {
	Kind       string
	Image      string // of a blackbox
	Main       string
	Binary     bool
	Components []string        // of a sequence, full names with a slash before
	Code       *string         // as text, or base64 if binary; nil when it has none or it is stored apart
	Attachment json.RawMessage // where the code is stored apart
	Attaches   bool            // new code is to be stored apart
}

type execJSON struct {
	Kind       *string         `json:"kind"`
	Image      string          `json:"image"`
	Main       string          `json:"main"`
	Binary     bool            `json:"binary"`
	Components []string        `json:"components"`
	Code       json.RawMessage `json:"code"`
}

// UnmarshalJSON reads the exec of a document or of a PUT.
func (e *Exec) UnmarshalJSON(b []byte) error {
	var j execJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return Malformed("exec malformed: %s", inWords(err))
	}
	if j.Kind == nil {
		return Malformed("'kind' must be a string defined in 'exec'")
	}
	*e = Exec{Kind: strings.ToLower(strings.TrimSpace(*j.Kind)), Image: strings.TrimSpace(j.Image), Main: j.Main, Binary: j.Binary, Components: j.Components}
	var code string
	switch {
	case j.Code == nil || string(j.Code) == "null":
	case json.Unmarshal(j.Code, &code) == nil:
		e.Code = &code
		e.Binary = activation.IsBinaryCode(code) // the caller's flag is ignored
	case j.Code[0] == '{':
		e.Attachment = compact(j.Code)
	default:
		return Malformed("'code' must be a string or attachment object defined in 'exec' for '%s' actions", e.Kind)
	}
	return nil
}

// IsSequence reports whether the controller runs it, and not an invoker.
func (e *Exec) IsSequence() bool { return e.Kind == SequenceKind }

// check completes a user's exec. It returns an error if the exec cannot be run.
func (e *Exec) check(home string, m *activation.Manifest) error {
	switch e.Kind {
	case SequenceKind:
		return e.checkSequence(home)
	case activation.Blackbox:
		if e.Image == "" {
			return Malformed("'image' must be a string defined in 'exec' for 'blackbox' actions")
		}
		if _, err := activation.ParseImage(e.Image); err != nil {
			return Malformed("%v", err)
		}
		e.Attaches = true
		if e.Code != nil && strings.TrimSpace(*e.Code) == "" {
			e.Code, e.Binary = nil, false
		}
	default:
		if err := e.checkRuntime(m); err != nil {
			return err
		}
	}
	if e.Code == nil {
		return nil
	}
	return tooLarge("code", len(*e.Code), maxExecBytes)
}

func (e *Exec) checkSequence(home string) error {
	if len(e.Components) == 0 {
		return Bad("No component specified for the sequence.")
	}
	for i, c := range e.Components {
		ref, err := ParseRef(c, home)
		if err != nil {
			return err
		}
		e.Components[i] = "/" + ref.String()
	}
	e.Code, e.Attachment, e.Image, e.Main = nil, nil, "", ""
	return nil
}

func (e *Exec) checkRuntime(m *activation.Manifest) error {
	r, ok := m.Runtime(e.Kind)
	if !ok {
		return Malformed("kind '%s' not in Set(%s)", e.Kind, kinds(m))
	}
	if r.Deprecated {
		return Bad("The '%s' runtime is no longer supported. You may read and delete but not update or invoke this action.", r.Kind)
	}
	e.Kind, e.Attaches = r.Kind, r.Attached
	if e.Code == nil {
		return Malformed("'code' must be a string or attachment object defined in 'exec' for '%s' actions", e.Kind)
	}
	if r.RequireMain && e.Main == "" {
		return Malformed("'main' must be a string defined in 'exec' for '%s' actions", e.Kind)
	}
	e.Image = ""
	return nil
}

func kinds(m *activation.Manifest) string {
	var all []string
	for _, r := range m.Runtimes() {
		all = append(all, r.Kind)
	}
	return strings.Join(all, ", ")
}

// MarshalJSON writes the members in the order that OpenWhisk's answers have
// them.
func (e Exec) MarshalJSON() ([]byte, error) {
	var code any
	switch {
	case e.Code != nil:
		code = *e.Code
	case e.Attachment != nil:
		code = e.Attachment
	}
	switch {
	case e.IsSequence():
		return Marshal(map[string]any{"components": e.Components, "kind": e.Kind})
	case e.Kind == activation.Blackbox:
		return Marshal(struct {
			Kind   string `json:"kind"`
			Image  string `json:"image"`
			Binary bool   `json:"binary"`
			Code   any    `json:"code,omitempty"`
			Main   string `json:"main,omitempty"`
		}{e.Kind, e.Image, e.Binary, code, e.Main})
	}
	return Marshal(struct {
		Kind   string `json:"kind"`
		Code   any    `json:"code,omitempty"`
		Binary bool   `json:"binary"`
		Main   string `json:"main,omitempty"`
	}{e.Kind, code, e.Binary, e.Main})
}
