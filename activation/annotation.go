package activation

import (
	"encoding/json"
	"strconv"
)

// Annotation is a key with any JSON value, on an action or on a record.
type Annotation struct {
	Key   string
	Value json.RawMessage
}

// Annotations keep the order they were written in.
type Annotations []Annotation

// Get returns the value of a key, and whether there is one. Of several, the
// last counts.
func (a Annotations) Get(key string) (json.RawMessage, bool) {
	for i := len(a) - 1; i >= 0; i-- {
		if a[i].Key == key {
			return a[i].Value, true
		}
	}
	return nil, false
}

// Text returns the value of a key that is a JSON string.
func (a Annotations) Text(key string) (string, bool) {
	v, ok := a.Get(key)
	if !ok {
		return "", false
	}
	p := newParser(v)
	s := p.str()
	return s, p.end() == nil
}

// Number returns the value of a key that is a JSON number, without its
// fraction.
func (a Annotations) Number(key string) (int64, bool) {
	v, ok := a.Get(key)
	if !ok {
		return 0, false
	}
	p := newParser(v)
	n := p.integer()
	return n, p.end() == nil
}

// AddText appends an annotation whose value is a string.
func (a *Annotations) AddText(key, value string) {
	*a = append(*a, Annotation{key, AppendString(make([]byte, 0, len(value)+2), value)})
}

// AddNumber appends an annotation whose value is a whole number.
func (a *Annotations) AddNumber(key string, value int64) {
	*a = append(*a, Annotation{key, strconv.AppendInt(nil, value, 10)})
}

// AddBool appends an annotation whose value is true or false.
func (a *Annotations) AddBool(key string, value bool) {
	*a = append(*a, Annotation{key, strconv.AppendBool(nil, value)})
}

// ProvidesAPIKey reports whether an action gets its caller's key: the annotation
// provide-api-key is missing or truthy (Annotations.ProvideApiKeyAnnotationName).
func (a Annotations) ProvidesAPIKey() bool {
	v, ok := a.Get("provide-api-key")
	return !ok || truthy(v)
}

// Rerun reports whether an activation of an action may run again when an invoker
// ended while it ran: the annotation rerun, or else otherwise.
func (a Annotations) Rerun(otherwise bool) bool {
	v, ok := a.Get("rerun")
	if !ok {
		return otherwise
	}
	return truthy(v)
}

// truthy follows WhiskAction's notion: false, zero, the empty string and null
// are not, anything else is.
func truthy(v json.RawMessage) bool {
	p := newParser(v)
	switch c := p.peek(); {
	case c == 't' || c == '{' || c == '[':
		return true
	case c == '"':
		return p.str() != ""
	case c == '0':
		d, ok := parseDecimal(p.number())
		return ok && d.digits != "0"
	}
	return false
}

// MarshalJSON writes an array of keys with values.
func (a Annotations) MarshalJSON() ([]byte, error) { return a.append(nil), nil }

func (a Annotations) append(dst []byte) []byte {
	dst = append(dst, '[')
	for i, annotation := range a {
		if i > 0 {
			dst = append(dst, ',')
		}
		o := newObject(dst)
		o.str("key", annotation.Key)
		o.raw("value", annotation.Value)
		dst = o.end()
	}
	return append(dst, ']')
}

func (p *parser) annotations() Annotations {
	all := Annotations{}
	p.array(func() {
		var a Annotation
		p.fields(
			required("key", func() { a.Key = p.str() }),
			required("value", func() { a.Value = p.raw() }),
		)
		all = append(all, a)
	})
	return all
}
