package activation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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
	errSyntax     = errors.New("not JSON")
)

// parser reads one JSON document from front to back. The first error sticks:
// every later call returns zero values and moves nothing, so that decoders
// check once. Raw values alias the input.
type parser struct {
	data []byte
	in   *jsontext.Decoder
	err  error
}

// newParser returns a parser at the first value of data. Invalid UTF-8 bytes are
// replaced, as in the original.
func newParser(data []byte) *parser {
	if !utf8.Valid(data) {
		data = []byte(strings.ToValidUTF8(string(data), "\uFFFD"))
	}
	// Halves of surrogate pairs count as invalid UTF-8.
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	return &parser{data: data, in: jsontext.NewDecoder(bytes.NewBuffer(data), options...)}
}

// end requires that nothing but white space is left and returns the first
// error.
func (p *parser) end() error {
	if len(bytes.TrimLeft(p.data[p.inputOffset():], " \t\r\n")) > 0 {
		p.failf("unexpected text after the value")
	}
	return p.err
}

// inputOffset is where the last token ended, start where the next one begins.
func (p *parser) inputOffset() int { return int(p.in.InputOffset()) }

func (p *parser) start() int {
	at := p.inputOffset()
	for at < len(p.data) && strings.IndexByte(" \t\r\n:,", p.data[at]) >= 0 {
		at++
	}
	return at
}

func (p *parser) fail(err error) { p.failAt(p.inputOffset(), err) }

func (p *parser) failAt(offset int, err error) {
	if p.err == nil {
		p.err = fmt.Errorf("offset %d: %w", offset, err)
	}
}

func (p *parser) failf(format string, args ...any) {
	p.fail(fmt.Errorf(format, args...))
}

// want fails with the expected kind of value. The error does not contain the actual
// value, which may be a user's secret.
func (p *parser) want(what string) {
	at, err := p.start(), fmt.Errorf("want %s", what)
	if at == len(p.data) {
		err = errEnd
	}
	p.failAt(at, err)
}

// peek returns the kind of the next token: the byte that it starts with, '0' for any
// number. It is 0 where there is none, and after an error.
func (p *parser) peek() jsontext.Kind {
	if p.err != nil {
		return 0
	}
	kind := p.in.PeekKind()
	if strings.IndexByte(`{}[]"0tfn`, byte(kind)) < 0 {
		return 0
	}
	return kind
}

// token consumes the next token. Its text may hold a user's secret, and so may the
// library's errors.
func (p *parser) token() (token jsontext.Value) {
	kind, start := p.peek(), p.start()
	switch {
	case p.err != nil:
		return nil
	case kind == 0:
		p.want("a value")
		return nil
	case kind != '}' && kind != ']' && p.in.StackDepth() >= maxDepth:
		p.fail(errTooDeep)
		return nil
	}
	var err error
	if strings.IndexByte("{}[]", byte(kind)) >= 0 {
		_, err = p.in.ReadToken()
	} else {
		token, err = p.in.ReadValue()
	}
	switch {
	case err != nil:
		p.failAt(start, errSyntax)
	case kind == '0' && len(token) > maxNumberLength:
		p.fail(errLongNumber)
	}
	return token
}

// addKey puts the key of a known member before the error of its value. Any other key
// may be a part of a value that damage has cut up, and stays out of errors.
func (p *parser) addKey(key string) {
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
	p.token()
	for p.err == nil && p.peek() != '}' {
		if key := p.str(); p.err == nil {
			member(key)
		}
	}
	p.token()
}

// field is a known member of an object. read consumes its value.
type field struct {
	key            string
	required, null bool // it must be there; it may be null
	read           func()
}

// required returns a field that must be present. An allowed field may be absent, an
// optional field may be absent or null.
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
			p.addKey(known[i].key)
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
	p.token()
	for p.err == nil && p.peek() != ']' {
		element()
	}
	p.token()
}

// null consumes a null and reports whether there was one.
func (p *parser) null() bool {
	if p.peek() != 'n' {
		return false
	}
	p.token()
	return p.err == nil
}

func (p *parser) bool() bool {
	kind := p.peek()
	if kind != 't' && kind != 'f' {
		p.want("true or false")
		return false
	}
	p.token()
	return kind == 't' && p.err == nil
}

// raw consumes any value and returns its bytes as they stand.
func (p *parser) raw() json.RawMessage {
	start := p.start()
	p.skip()
	if p.err != nil {
		return nil
	}
	return p.since(start)
}

// since is the text from an offset on up to the last token.
func (p *parser) since(start int) []byte { return p.data[start:p.inputOffset():p.inputOffset()] }

// skip consumes any value and checks it.
func (p *parser) skip() {
	level := p.in.StackDepth()
	for p.token(); p.err == nil && p.in.StackDepth() > level; {
		p.token()
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
