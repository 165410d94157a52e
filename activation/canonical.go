package activation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Canonical prints a JSON value as OpenWhisk prints a parsed value: without white
// space, with sorted keys, with the last of equal keys, and with numbers as
// java.math.BigDecimal writes them. The results of actions in acks and records have
// this form.
func Canonical(value []byte) (json.RawMessage, error) {
	p := newParser(value)
	tree := p.tree()
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("parse json: %w", err)
	}
	return tree.append(make([]byte, 0, len(value))), nil
}

// node is a value that is parsed and not yet printed. Printing a whole tree,
// not each level by itself, takes time in proportion to the text however deep
// that is.
type node struct {
	kind     byte   // '{', '[', or anything else for a scalar
	scalar   []byte // as it is printed
	elements []node // of an array
	members  []keyed
}

type keyed struct {
	key   string
	value node
}

func (p *parser) tree() node {
	switch c := p.peek(); {
	case c == '{':
		return node{kind: byte(c), members: p.sortedMembers()}
	case c == '[':
		var all []node
		p.array(func() { all = append(all, p.tree()) })
		return node{kind: byte(c), elements: all}
	case c == '"':
		quoted := p.token()
		if p.err == nil && bytes.IndexByte(quoted, '\\') >= 0 {
			return node{scalar: AppendString(nil, unquote(quoted))}
		}
		return node{scalar: quoted}
	case c == '0':
		return node{scalar: p.canonicalNumber()}
	}
	return node{scalar: p.raw()}
}

// sortedMembers reads an object: of equal keys the last counts.
func (p *parser) sortedMembers() []keyed {
	var all []keyed
	p.object(func(key string) { all = append(all, keyed{key, p.tree()}) })
	byKey := func(a, b keyed) int { return compareUTF16(a.key, b.key) }
	if !slices.IsSortedFunc(all, byKey) {
		slices.SortStableFunc(all, byKey)
	}
	kept := all[:0]
	for i, m := range all {
		if i+1 == len(all) || all[i+1].key != m.key {
			kept = append(kept, m)
		}
	}
	return kept
}

func (p *parser) canonicalNumber() []byte {
	text := p.number()
	if p.err != nil {
		return nil
	}
	d, ok := parseDecimal(text)
	if !ok {
		p.failf("exponent out of range")
		return nil
	}
	return d.append(nil)
}

func (n node) append(dst []byte) []byte {
	switch n.kind {
	case '{':
		o := newObject(dst)
		for _, m := range n.members {
			o.key(m.key)
			o.out = m.value.append(o.out)
		}
		return o.end()
	case '[':
		dst = append(dst, '[')
		for i, e := range n.elements {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.append(dst)
		}
		return append(dst, ']')
	}
	return append(dst, n.scalar...)
}

// compareUTF16 orders strings by UTF-16 code units, as Java does. It differs
// from the order of bytes only past the basic plane, whose surrogates sort
// below U+E000.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		r, n := utf8.DecodeRuneInString(a)
		s, m := utf8.DecodeRuneInString(b)
		if r != s {
			return cmp.Compare(unitOrder(r), unitOrder(s))
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

func unitOrder(r rune) rune {
	if r >= 0xE000 && r <= 0xFFFF {
		return r + utf8.MaxRune
	}
	return r
}

// mayHaveExponent looks for the letter of one behind a digit.
func mayHaveExponent(value []byte) bool {
	for i, c := range value {
		if (c == 'e' || c == 'E') && i > 0 && '0' <= value[i-1] && value[i-1] <= '9' {
			return true
		}
	}
	return false
}

// quoteHuge writes numbers that overflow a double as text. CouchDB refuses all
// documents of a request that contains such a number.
func quoteHuge(value json.RawMessage) json.RawMessage {
	if !mayHaveExponent(value) {
		return value // 100 digits cannot overflow
	}
	var out []byte
	copied := 0
	p := newParser(value)
	p.numbers(func(from, to int) {
		text := string(value[from:to])
		if fitsDouble(text) {
			return
		}
		out = append(out, value[copied:from]...)
		out = AppendString(out, text)
		copied = to
	})
	if out == nil || p.err != nil {
		return value
	}
	return append(out, value[copied:]...)
}

func fitsDouble(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsInf(f, 0)
}

// numbers calls each with the offsets of every number in the rest of the input.
func (p *parser) numbers(each func(from, to int)) {
	for p.peek() != 0 {
		from, number := p.start(), p.peek() == '0'
		if p.token(); number && p.err == nil {
			each(from, p.inputOffset())
		}
	}
}
