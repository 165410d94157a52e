package entity

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// object appends a JSON object member by member. Members come in the order
// they are written, which everywhere but inside exec is the order of their
// names, as OpenWhisk's answers have it.
type object struct {
	out   []byte
	empty bool
}

func newObject(dst []byte) object { return object{append(dst, '{'), true} }

func (o *object) key(name string) {
	if !o.empty {
		o.out = append(o.out, ',')
	}
	o.empty = false
	o.out = append(activation.AppendString(o.out, name), ':')
}

func (o *object) str(name, value string) {
	o.key(name)
	o.out = activation.AppendString(o.out, value)
}

func (o *object) int(name string, value int64) {
	o.key(name)
	o.out = strconv.AppendInt(o.out, value, 10)
}

func (o *object) bool(name string, value bool) {
	o.key(name)
	o.out = strconv.AppendBool(o.out, value)
}

func (o *object) raw(name string, value []byte) {
	o.key(name)
	o.out = append(o.out, value...)
}

func (o *object) strs(name string, values []string) {
	o.key(name)
	o.out = append(o.out, '[')
	for i, v := range values {
		if i > 0 {
			o.out = append(o.out, ',')
		}
		o.out = activation.AppendString(o.out, v)
	}
	o.out = append(o.out, ']')
}

func (o *object) annotations(a activation.Annotations) {
	o.key("annotations")
	o.out = append(o.out, '[')
	for i, one := range a {
		if i > 0 {
			o.out = append(o.out, ',')
		}
		p := newObject(o.out)
		p.str("key", one.Key)
		p.raw("value", one.Value)
		o.out = p.end()
	}
	o.out = append(o.out, ']')
}

func (o *object) end() []byte { return append(o.out, '}') }

// Layout says whom an entity is written for.
type Layout int

// The database's document has id, revision and type; an answer has not.
const (
	ForAnswer Layout = iota
	ForDatabase
)

// begin starts the object of an entity.
func (h *Head) begin(l Layout) object {
	o := newObject(make([]byte, 0, 512))
	if l == ForDatabase {
		o.str("_id", h.ID())
		if h.Rev != "" {
			o.str("_rev", h.Rev)
		}
	}
	return o
}

func entityType(o *object, l Layout, word string) {
	if l == ForDatabase {
		o.str("entityType", word)
	}
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
