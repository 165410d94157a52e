package activation

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str consumes a string and returns its meaning.
func (p *parser) str() string {
	start, end, escaped := p.span()
	if p.err != nil {
		return ""
	}
	if !escaped {
		return p.text[start:end]
	}
	return unescape(p.text[start:end])
}

// span consumes a string and returns where its inside lies and whether it
// holds escapes. Control characters must be escaped, as the original demands.
func (p *parser) span() (start, end int, escaped bool) {
	if p.peek() != '"' {
		p.want("a string")
		return 0, 0, false
	}
	p.at++
	start = p.at
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return start, p.at - 1, escaped
		case c == '\\':
			escaped = true
			p.escape()
			if p.err != nil {
				return 0, 0, false
			}
		case c < 0x20:
			p.failf("control character in a string")
			return 0, 0, false
		default:
			p.at++
		}
	}
	p.fail(errEnd)
	return 0, 0, false
}

func (p *parser) escape() {
	p.at++
	if p.at >= len(p.text) {
		p.fail(errEnd)
		return
	}
	if c := p.text[p.at]; c != 'u' {
		if !strings.ContainsRune(`"\/bfnrt`, rune(c)) {
			p.failf("unknown escape in a string")
			return
		}
		p.at++
		return
	}
	p.at++
	if p.at+4 > len(p.text) {
		p.fail(errEnd)
		return
	}
	for i := range 4 {
		if !isHex(p.text[p.at+i]) {
			p.failf("bad unicode escape in a string")
			return
		}
	}
	p.at += 4
}

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// unescape resolves the escapes of a string that span has checked. Half a
// surrogate pair becomes a question mark: that is what the original's encoder
// writes for it.
func unescape(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			continue
		}
		if s[i+1] != 'u' {
			out = append(out, unescapeByte(s[i+1]))
			i += 2
			continue
		}
		r, n := unescapeRune(s[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out)
}

func unescapeByte(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func unescapeRune(s string) (r rune, n int) {
	r = hex4(s[2:6])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(s[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return '?', 6
}

func hex4(s string) rune {
	n, _ := strconv.ParseUint(s, 16, 16) // the digits are checked already
	return rune(n)
}

// number consumes a number and returns its text.
func (p *parser) number() string {
	start := p.at
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else {
		p.digits()
	}
	if p.peek() == '.' {
		p.at++
		p.digits()
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		p.digits()
	}
	if p.err == nil && p.at-start > maxNumberLength {
		p.fail(errLongNumber)
	}
	if p.err != nil {
		return ""
	}
	return p.text[start:p.at]
}

func (p *parser) digits() {
	if !isDigit(p.peek()) {
		p.want("a digit")
		return
	}
	for p.at < len(p.text) && isDigit(p.text[p.at]) {
		p.at++
	}
}

// integer consumes a number and cuts off its fraction, as the original's
// readers of Int and Long do.
func (p *parser) integer() int64 {
	n, _ := p.whole()
	return n
}

// wholeInt consumes a number that must have no fraction.
func (p *parser) wholeInt() int {
	n, exact := p.whole()
	if p.err == nil && (!exact || n != int64(int32(n))) {
		p.failf("want a whole number")
	}
	return int(n)
}

// whole reads a number as an integer and reports whether nothing was cut off.
func (p *parser) whole() (int64, bool) {
	if c := p.peek(); c != '-' && !isDigit(c) {
		p.want("a number")
		return 0, false
	}
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
