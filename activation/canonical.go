package activation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Canonical prints a JSON value the way OpenWhisk prints what it has parsed:
// without white space, keys sorted, the last of equal keys, and numbers as
// java.math.BigDecimal writes them. Results of actions pass through that on
// their way into acks and records.
func Canonical(value []byte) (json.RawMessage, error) {
	p := newParser(value)
	out := p.canonical(make([]byte, 0, len(value)))
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("parse json: %w", err)
	}
	return out, nil
}

func (p *parser) canonical(dst []byte) []byte {
	switch c := p.peek(); {
	case c == '{':
		return p.canonicalObject(dst)
	case c == '[':
		dst = append(dst, '[')
		first := true
		p.array(func() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = p.canonical(dst)
		})
		return append(dst, ']')
	case c == '"':
		return AppendString(dst, p.str())
	case c == '-' || isDigit(c):
		return p.canonicalNumber(dst)
	}
	return append(dst, p.raw()...)
}

func (p *parser) canonicalNumber(dst []byte) []byte {
	text := p.number()
	if p.err != nil {
		return dst
	}
	d, ok := parseDecimal(text)
	if !ok {
		p.failf("exponent out of range")
		return dst
	}
	return d.append(dst)
}

// printed is one member of an object that is being printed: its key, and where
// key and value stand in the output.
type printed struct {
	key      string
	from, to int
}

func (p *parser) canonicalObject(dst []byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	members := make([]printed, 0, 8)
	sorted := true
	p.object(func(key string) {
		if n := len(members); n > 0 {
			sorted = sorted && compareUTF16(members[n-1].key, key) < 0
			dst = append(dst, ',')
		}
		from := len(dst)
		dst = append(AppendString(dst, key), ':')
		dst = p.canonical(dst)
		members = append(members, printed{key, from, len(dst)})
	})
	if !sorted && p.err == nil {
		dst = rearrange(dst, start, members)
	}
	return append(dst, '}')
}

// rearrange puts printed members in the order of their keys; of equal keys the
// last stays.
func rearrange(dst []byte, start int, members []printed) []byte {
	text := slices.Clone(dst[start:])
	slices.SortStableFunc(members, func(a, b printed) int { return compareUTF16(a.key, b.key) })
	dst = dst[:start]
	for i, m := range members {
		if i+1 < len(members) && members[i+1].key == m.key {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, text[m.from-start:m.to-start]...)
	}
	return dst
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

// Text writes a JSON value as text, the way OpenWhisk puts parameters into an
// action's environment: strings as they are, null as nothing, everything else
// as its JSON.
func Text(value json.RawMessage) (string, error) {
	p := newParser(value)
	switch p.peek() {
	case '"':
		s := p.str()
		return s, p.end()
	case 'n':
		p.null()
		return "", p.end()
	}
	out, err := Canonical(value)
	return string(out), err
}

// quoteHuge writes numbers that overflow a double as text. CouchDB takes no
// such number, and refuses every document of a request that holds one.
func quoteHuge(value json.RawMessage) json.RawMessage {
	if !slices.Contains(value, 'E') && !slices.Contains(value, 'e') {
		return value // without an exponent 100 digits cannot overflow
	}
	var out []byte
	copied := 0
	p := newParser(value)
	p.numbers(func(from, to int) {
		if fitsDouble(p.text[from:to]) {
			return
		}
		out = append(out, p.data[copied:from]...)
		out = AppendString(out, p.text[from:to])
		copied = to
	})
	if out == nil || p.err != nil {
		return value
	}
	return append(out, p.data[copied:]...)
}

func fitsDouble(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsInf(f, 0)
}

// numbers calls each with the place of every number in the value.
func (p *parser) numbers(each func(from, to int)) {
	switch c := p.peek(); {
	case c == '{':
		p.object(func(string) { p.numbers(each) })
	case c == '[':
		p.array(func() { p.numbers(each) })
	case c == '-' || isDigit(c):
		from := p.at
		p.number()
		each(from, p.at)
	default:
		p.skip()
	}
}
