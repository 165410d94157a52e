package entity

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Parameters are default arguments, in the order they were given. Annotations
// have the same form.
type Parameters []activation.Parameter

// parameterJSON is a parameter as documents have it.
type parameterJSON struct {
	Key        string          `json:"key"`
	Value      json.RawMessage `json:"value"`
	Init       bool            `json:"init,omitempty"`
	Encryption string          `json:"encryption,omitempty"`
}

// UnmarshalJSON reads an array of keys with values.
func (p *Parameters) UnmarshalJSON(b []byte) error {
	var list []parameterJSON
	if err := json.Unmarshal(b, &list); err != nil {
		return Malformed("parameters malformed!")
	}
	*p = Parameters{}
	for _, one := range list {
		if one.Key == "" {
			return Malformed("parameters malformed!")
		}
		if one.Value == nil {
			one.Value = json.RawMessage("null")
		}
		one.Value = compact(one.Value)
		*p = p.Set(activation.Parameter(one))
	}
	return nil
}

// Set returns the parameters with one more, or one replaced.
func (p Parameters) Set(one activation.Parameter) Parameters {
	i := p.index(one.Key)
	if i < 0 {
		return append(slices.Clip(p), one)
	}
	p = slices.Clone(p)
	p[i] = one
	return p
}

func (p Parameters) index(key string) int {
	return slices.IndexFunc(p, func(one activation.Parameter) bool { return one.Key == key })
}

// Over returns these parameters laid over others: of two with one key, these
// count.
func (p Parameters) Over(others Parameters) Parameters {
	out := append(Parameters{}, others...)
	for _, one := range p {
		out = out.Set(one)
	}
	return out
}

// Defines reports whether the key has a value that a final action protects: a value
// other than null and the empty text.
func (p Parameters) Defines(key string) bool {
	v, ok := p.Get(key)
	return ok && string(v) != "null" && string(v) != `""`
}

// MarshalJSON writes an array of keys with values.
func (p Parameters) MarshalJSON() ([]byte, error) {
	list := make([]parameterJSON, len(p))
	for i, one := range p {
		list[i] = parameterJSON(one)
	}
	return Marshal(list)
}

// Object writes keys and values as one object.
func (p Parameters) Object() json.RawMessage {
	out := []byte{'{'}
	for i, one := range p {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(activation.AppendString(out, one.Key), ':')
		out = append(out, one.Value...)
	}
	return append(out, '}')
}

// size is how many bytes keys and values have.
func (p Parameters) size() int {
	n := 0
	for _, one := range p {
		n += len(one.Key) + len(one.Value)
	}
	return n
}

// Get returns the value of a key, and whether there is one.
func (p Parameters) Get(key string) (json.RawMessage, bool) {
	if i := p.index(key); i >= 0 {
		return p[i].Value, true
	}
	return nil, false
}

// Text returns the value of a key that is a JSON string.
func (p Parameters) Text(key string) (text string, ok bool) {
	v, ok := p.Get(key)
	return text, ok && len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &text) == nil
}

// Truthy reports whether a key is set to something: not false, zero, empty text
// or null.
func (p Parameters) Truthy(key string) bool {
	v, ok := p.Get(key)
	return ok && !slices.Contains([]string{"false", "0", `""`, "null"}, string(v))
}

// IsTrue reports whether a key is set to exactly true.
func (p Parameters) IsTrue(key string) bool {
	v, _ := p.Get(key)
	return string(v) == "true"
}

// without returns the parameters but for one.
func (p Parameters) without(key string) Parameters {
	return slices.DeleteFunc(slices.Clone(p), func(one activation.Parameter) bool { return one.Key == key })
}

// annotationList reads annotations, which have the form of parameters.
type annotationList Parameters

// UnmarshalJSON reads an array of keys with values.
func (a *annotationList) UnmarshalJSON(b []byte) error {
	if (*Parameters)(a).UnmarshalJSON(b) != nil {
		return Malformed("annotations malformed!")
	}
	return nil
}

// compact removes the white space between a value's tokens, which a user's
// request may have.
func compact(v json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return v
	}
	return b.Bytes()
}
