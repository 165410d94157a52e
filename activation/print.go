package activation

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendString appends s as a JSON string in OpenWhisk's form: only quotes, backslashes
// and control characters are escaped. Invalid UTF-8 bytes become the replacement
// character.
func AppendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the error is about those bytes
	return dst
}

// object appends the members of one JSON object in the order they are added.
// OpenWhisk sorts them, so the caller must.
type object struct {
	out   []byte
	comma bool
}

func newObject(dst []byte) object { return object{out: append(dst, '{')} }

func (o *object) key(k string) {
	if o.comma {
		o.out = append(o.out, ',')
	}
	o.comma = true
	o.out = AppendString(o.out, k)
	o.out = append(o.out, ':')
}

func (o *object) str(k, v string) {
	o.key(k)
	o.out = AppendString(o.out, v)
}

// optional leaves the member out when v is empty.
func (o *object) optional(k, v string) {
	if v != "" {
		o.str(k, v)
	}
}

func (o *object) int(k string, v int64) {
	o.key(k)
	o.out = strconv.AppendInt(o.out, v, 10)
}

func (o *object) bool(k string, v bool) {
	o.key(k)
	o.out = strconv.AppendBool(o.out, v)
}

func (o *object) raw(k string, v []byte) {
	o.key(k)
	o.out = append(o.out, v...)
}

func (o *object) strs(k string, v []string) {
	o.key(k)
	o.out = appendStrings(o.out, v)
}

func (o *object) end() []byte { return append(o.out, '}') }

func appendStrings(dst []byte, v []string) []byte {
	dst = append(dst, '[')
	for i, s := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, s)
	}
	return append(dst, ']')
}
