package activation

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// str consumes a string and returns its meaning.
func (p *parser) str() string {
	if p.peek() != '"' {
		p.want("a string")
		return ""
	}
	quoted := p.token()
	if p.err != nil {
		return ""
	}
	return unquote(quoted)
}

// unquote returns the value of a valid JSON string. Half a surrogate pair becomes a
// question mark, as in the original's encoder.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err == nil {
		return string(text)
	}
	text = text[:0]
	for inside := quoted[1 : len(quoted)-1]; len(inside) > 0; {
		n, part := unquoteSome(inside)
		text, inside = append(text, part...), inside[n:]
	}
	return string(text)
}

// unquoteSome takes a run without escapes, one escape, or two that are a pair.
func unquoteSome(inside []byte) (n int, text []byte) {
	if inside[0] != '\\' {
		n = len(inside)
		if i := bytes.IndexByte(inside, '\\'); i > 0 {
			n = i
		}
		return n, inside[:n]
	}
	lengths := []int{2}
	if inside[1] == 'u' {
		lengths = []int{12, 6}
	}
	for _, n = range lengths {
		if n > len(inside) {
			continue
		}
		text, err := jsontext.AppendUnquote(nil, slices.Concat([]byte{'"'}, inside[:n], []byte{'"'}))
		if err == nil {
			return n, text
		}
	}
	return n, []byte{'?'}
}

// number consumes a number and returns its text.
func (p *parser) number() string {
	if p.peek() != '0' {
		p.want("a number")
		return ""
	}
	return string(p.token())
}

// integer consumes a number and cuts off its fraction, as the original's
// readers of Int and Long do.
func (p *parser) integer() int64 {
	n, _ := p.whole()
	return n
}

// wholeInt consumes an integer. It fails if the number has a fraction.
func (p *parser) wholeInt() int {
	n, exact := p.whole()
	if p.err == nil && (!exact || n != int64(int32(n))) {
		p.failf("want a whole number")
	}
	return int(n)
}

// whole reads a number as an integer and reports whether nothing was cut off.
func (p *parser) whole() (int64, bool) {
	text := p.number()
	if p.err != nil {
		return 0, false
	}
	n, exact, ok := truncate(text)
	if !ok {
		p.failf("number out of range")
	}
	return n, exact
}

// truncate reads a decimal with fraction or exponent. Exponents past any
// int64 are refused before they cost memory.
func truncate(text string) (n int64, exact, ok bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true, true
	}
	d, ok := parseDecimal(text)
	if !ok {
		return 0, false, false
	}
	if len(d.digits)-d.scale > 19 {
		return 0, false, false
	}
	whole := d.digits
	exact = true
	if d.scale > 0 {
		cut := max(len(whole)-d.scale, 0)
		exact = strings.Trim(whole[cut:], "0") == ""
		whole = whole[:cut]
	} else {
		whole += strings.Repeat("0", -d.scale)
	}
	if whole == "" {
		return 0, exact, true
	}
	if d.negative {
		whole = "-" + whole
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	return n, exact, err == nil
}
