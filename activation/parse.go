package activation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of the JSON parser that every OpenWhisk component uses (spray-json,
// JsonParserSettings): deeper values and longer numbers make a whole document
// unreadable for the peers, so they do here.
const (
	maxDepth        = 1000
	maxNumberLength = 100
)

var (
	errTooDeep    = errors.New("nested too deeply")
	errLongNumber = errors.New("number too long")
	errEnd        = errors.New("unexpected end")
)

// parser reads one JSON document from front to back. The first error sticks:
// every later call returns zero values and moves nothing, so that decoders
// check once. text holds the same bytes as data, so that strings without
// escapes are cut out without a copy and raw values alias the input.
type parser struct {
	data  []byte
	text  string
	at    int
	depth int
	err   error
}

// newParser starts at the first value of data. Bytes that are no UTF-8 are
// replaced, as the original does when it turns a message into text.
func newParser(data []byte) *parser {
	if !utf8.Valid(data) {
		data = []byte(strings.ToValidUTF8(string(data), "\uFFFD"))
	}
	p := &parser{data: data, text: string(data)}
	p.space()
	return p
}

// end requires that nothing but white space is left and returns the first
// error.
func (p *parser) end() error {
	p.space()
	if p.err == nil && p.at != len(p.text) {
		p.failf("unexpected text after the value")
	}
	return p.err
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = fmt.Errorf("offset %d: %w", p.at, err)
	}
}

func (p *parser) failf(format string, args ...any) {
	p.fail(fmt.Errorf(format, args...))
}

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// peek returns the byte that starts the next value, 0 at the end or after an
// error.
func (p *parser) peek() byte {
	if p.err != nil || p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// take consumes c and the white space before and after it.
func (p *parser) take(c byte) bool {
	p.space()
	if p.peek() != c {
		return false
	}
	p.at++
	p.space()
	return true
}

func (p *parser) enter() bool {
	p.depth++
	if p.depth >= maxDepth {
		p.fail(errTooDeep)
	}
	return p.err == nil
}

// in puts the key of a known member before the error of its value. Any other key
// may be a part of a value that damage has cut up, and stays out of errors.
func (p *parser) in(key string) {
	if p.err != nil {
		p.err = fmt.Errorf("%s: %w", key, p.err)
	}
}

// object reads an object and calls member for each key, in the order of the
// text; member must consume exactly one value.
func (p *parser) object(member func(key string)) {
	if p.peek() != '{' {
		p.want("an object")
		return
	}
	p.at++
	p.space()
	if p.take('}') {
		return
	}
	for p.err == nil {
		key := p.str()
		if !p.take(':') {
			p.want("a colon")
			return
		}
		if !p.enter() {
			return
		}
		member(key)
		p.depth--
		if p.take(',') {
			continue
		}
		if !p.take('}') {
			p.want("a comma or the end of the object")
		}
		return
	}
}

// field is a known member of an object. read consumes its value.
type field struct {
	key            string
	required, null bool // it must be there; it may be null
	read           func()
}

// required is a field that must be there, allowed one that may be absent, and
// optional one that may be absent or null.
func required(key string, read func()) field { return field{key, true, false, read} }
func allowed(key string, read func()) field  { return field{key, false, false, read} }
func optional(key string, read func()) field { return field{key, false, true, read} }

// fields reads an object of known members. Other members are skipped; of equal
// keys the last counts.
func (p *parser) fields(known ...field) {
	seen := 0 // a bit for each of known
	p.object(func(key string) {
		i := slices.IndexFunc(known, func(f field) bool { return f.key == key })
		switch {
		case i < 0:
			p.skip()
		case !known[i].null || !p.null():
			seen |= 1 << i
			known[i].read()
			p.in(known[i].key)
		}
	})
	for i, f := range known {
		p.require(!f.required || seen&(1<<i) != 0, f.key)
	}
}

// require fails when fields that the peer demands are missing.
func (p *parser) require(ok bool, fields string) {
	if !ok {
		p.failf("missing %s", fields)
	}
}

// array reads an array and calls element for each value, which it must
// consume.
func (p *parser) array(element func()) {
	if p.peek() != '[' {
		p.want("an array")
		return
	}
	p.at++
	p.space()
	if p.take(']') {
		return
	}
	for p.err == nil && p.enter() {
		element()
		p.depth--
		if p.take(',') {
			continue
		}
		if !p.take(']') {
			p.want("a comma or the end of the array")
		}
		return
	}
}

// want fails with what was expected. What was there stays out of the error: it
// may be a user's secret.
func (p *parser) want(what string) {
	if p.err == nil && p.at >= len(p.text) {
		p.fail(errEnd)
		return
	}
	p.failf("want %s", what)
}

// null consumes a null and reports whether there was one.
func (p *parser) null() bool {
	if p.peek() != 'n' {
		return false
	}
	p.word("null")
	return p.err == nil
}

func (p *parser) word(w string) {
	if p.err != nil {
		return
	}
	if !strings.HasPrefix(p.text[p.at:], w) {
		p.want(w)
		return
	}
	p.at += len(w)
}

func (p *parser) bool() bool {
	switch p.peek() {
	case 't':
		p.word("true")
		return p.err == nil
	case 'f':
		p.word("false")
	default:
		p.want("true or false")
	}
	return false
}

// raw consumes any value and returns its bytes as they stand.
func (p *parser) raw() json.RawMessage {
	start := p.at
	p.skip()
	if p.err != nil {
		return nil
	}
	return json.RawMessage(p.data[start:p.at:p.at])
}

// skip consumes any value and checks it.
func (p *parser) skip() {
	switch c := p.peek(); {
	case c == '{':
		p.object(func(string) { p.skip() })
	case c == '[':
		p.array(p.skip)
	case c == '"':
		p.span()
	case c == '-' || isDigit(c):
		p.number()
	case c == 't' || c == 'f':
		p.bool()
	case c == 'n':
		p.null()
	default:
		p.want("a value")
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
