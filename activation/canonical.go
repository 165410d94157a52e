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
	var late layout
	out := p.canonical(make([]byte, 0, len(value)), &late)
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("parse json: %w", err)
	}
	if !late.any {
		return out, nil
	}
	return late.write(make([]byte, 0, len(out)), out, 0, len(out)), nil
}

func (p *parser) canonical(dst []byte, late *layout) []byte {
	switch c := p.peek(); {
	case c == '{':
		return p.canonicalObject(dst, late)
	case c == '[':
		dst = append(dst, '[')
		first := true
		p.array(func() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = p.canonical(dst, late)
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

func (p *parser) canonicalObject(dst []byte, late *layout) []byte {
	start, mine := len(dst), len(late.objects)
	late.objects = append(late.objects, placed{from: start})
	dst = append(dst, '{')
	members := make([]place, 0, 8)
	sorted := true
	p.object(func(key string) {
		if n := len(members); n > 0 {
			sorted = sorted && compareUTF16(members[n-1].key, key) < 0
			dst = append(dst, ',')
		}
		from := len(dst)
		dst = append(AppendString(dst, key), ':')
		dst = p.canonical(dst, late)
		members = append(members, place{key, from, len(dst)})
	})
	dst = append(dst, '}')
	switch {
	case !sorted:
		late.any = true
		late.objects[mine].to, late.objects[mine].members = len(dst), inOrder(members)
	case len(late.objects) == mine+1:
		late.objects = late.objects[:mine] // nothing to move in it or below
	}
	return dst
}

// layout says which objects of an output must be rearranged. That is done at
// the end, once for all levels: done level by level, each would copy all that
// is below it.
type layout struct {
	any     bool
	objects []placed // ordered by from
}

// placed is an object in the output. Its members are sorted, each key once;
// none means that they stand as they should.
type placed struct {
	from, to int
	members  []place
}

// place is one member of an object: its key, and where key and value stand in
// the output.
type place struct {
	key      string
	from, to int
}

// inOrder sorts members by key; of equal keys the last stays.
func inOrder(members []place) []place {
	slices.SortStableFunc(members, func(a, b place) int { return compareUTF16(a.key, b.key) })
	kept := members[:0]
	for i, m := range members {
		if i+1 == len(members) || members[i+1].key != m.key {
			kept = append(kept, m)
		}
	}
	return kept
}

// write appends text[from:to] with its objects rearranged.
func (l *layout) write(dst, text []byte, from, to int) []byte {
	for i := l.first(from); i < len(l.objects) && l.objects[i].from < to; {
		o := l.objects[i]
		if o.members == nil {
			i++
			continue
		}
		dst = append(append(dst, text[from:o.from]...), '{')
		for j, m := range o.members {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = l.write(dst, text, m.from, m.to)
		}
		dst = append(dst, '}')
		from = o.to
		i = l.first(from)
	}
	return append(dst, text[from:to]...)
}

// first finds the first object that does not begin before from.
func (l *layout) first(from int) int {
	i, _ := slices.BinarySearchFunc(l.objects, from, func(o placed, from int) int { return cmp.Compare(o.from, from) })
	return i
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

// mayHaveExponent looks for the letter of one behind a digit.
func mayHaveExponent(value []byte) bool {
	for i, c := range value {
		if (c == 'e' || c == 'E') && i > 0 && '0' <= value[i-1] && value[i-1] <= '9' {
			return true
		}
	}
	return false
}

// quoteHuge writes numbers that overflow a double as text. CouchDB takes no
// such number, and refuses every document of a request that holds one.
func quoteHuge(value json.RawMessage) json.RawMessage {
	if !mayHaveExponent(value) {
		return value // 100 digits cannot overflow
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
