package entity

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Parameters are default arguments, in the order they were given.
type Parameters []activation.Parameter

// parameterJSON is a parameter, or an annotation, as documents have it.
type parameterJSON struct {
	Key        *string         `json:"key"`
	Value      json.RawMessage `json:"value"`
	Init       bool            `json:"init,omitempty"`
	Encryption string          `json:"encryption,omitempty"`
}

// UnmarshalJSON reads an array of keys with values.
func (p *Parameters) UnmarshalJSON(b []byte) error {
	var list []parameterJSON
	if err := json.Unmarshal(b, &list); err != nil {
		return malformed("parameters malformed!")
	}
	*p = Parameters{}
	for _, one := range list {
		if one.Key == nil || *one.Key == "" {
			return malformed("parameters malformed!")
		}
		if one.Value == nil {
			one.Value = json.RawMessage("null")
		}
		*p = p.Set(activation.Parameter{Key: *one.Key, Value: compact(one.Value), Init: one.Init, Encryption: one.Encryption})
	}
	return nil
}

// Set returns the parameters with one more, or one replaced.
func (p Parameters) Set(one activation.Parameter) Parameters {
	for i := range p {
		if p[i].Key == one.Key {
			out := append(Parameters{}, p...)
			out[i] = one
			return out
		}
	}
	return append(p[:len(p):len(p)], one)
}

// Over returns these parameters laid over others: of two with one key, these
// have the last word.
func (p Parameters) Over(others Parameters) Parameters {
	out := append(Parameters{}, others...)
	for _, one := range p {
		out = out.Set(one)
	}
	return out
}

// Defines reports whether there is a value under the key that a final action
// protects: one that is neither null nor empty text.
func (p Parameters) Defines(key string) bool {
	for _, one := range p {
		if one.Key == key {
			return string(one.Value) != "null" && string(one.Value) != `""`
		}
	}
	return false
}

// MarshalJSON writes an array of keys with values.
func (p Parameters) MarshalJSON() ([]byte, error) {
	list := make([]parameterJSON, len(p))
	for i, one := range p {
		list[i] = parameterJSON{&one.Key, one.Value, one.Init, one.Encryption}
	}
	return marshal(list)
}

// size is how many bytes keys and values have.
func (p Parameters) size() int {
	n := 0
	for _, one := range p {
		n += len(one.Key) + len(one.Value)
	}
	return n
}

// annotationList reads annotations, which have the form of parameters.
type annotationList activation.Annotations

// UnmarshalJSON reads an array of keys with values.
func (a *annotationList) UnmarshalJSON(b []byte) error {
	var p Parameters
	if p.UnmarshalJSON(b) != nil {
		return malformed("annotations malformed!")
	}
	*a = annotationList{}
	for _, one := range p {
		*a = append(*a, activation.Annotation{Key: one.Key, Value: one.Value})
	}
	return nil
}

// MarshalJSON writes an array of keys with values.
func (a annotationList) MarshalJSON() ([]byte, error) {
	list := make([]parameterJSON, len(a))
	for i, one := range a {
		list[i] = parameterJSON{Key: &one.Key, Value: one.Value}
	}
	return marshal(list)
}

func (a annotationList) size() int {
	n := 0
	for _, one := range a {
		n += len(one.Key) + len(one.Value)
	}
	return n
}

// setAnnotation replaces the value of a key where it stands, or appends it.
func setAnnotation(a activation.Annotations, key string, value json.RawMessage) activation.Annotations {
	out := append(activation.Annotations{}, a...)
	for i := range out {
		if out[i].Key == key {
			out[i].Value = value
			return out
		}
	}
	return append(out, activation.Annotation{Key: key, Value: value})
}

func dropAnnotation(a activation.Annotations, key string) activation.Annotations {
	return slices.DeleteFunc(slices.Clone(a), func(one activation.Annotation) bool { return one.Key == key })
}

// Truthy reports whether an annotation is set to something: not false, zero,
// empty text or null.
func Truthy(a activation.Annotations, key string) bool {
	v, ok := a.Get(key)
	if !ok {
		return false
	}
	switch string(v) {
	case "false", "0", `""`, "null":
		return false
	}
	return true
}

// IsTrue reports whether an annotation is exactly true.
func IsTrue(a activation.Annotations, key string) bool {
	v, ok := a.Get(key)
	return ok && string(v) == "true"
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
