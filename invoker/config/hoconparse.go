package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// hoconEnd stands behind the last character.
const hoconEnd = rune(-1)

// hoconSpecial characters end an unquoted text.
const hoconSpecial = "$\"{}[]:=,+#`^?!@*&\\\n"

// includeForm is how an include statement begins; a key may also be named so.
var includeForm = regexp.MustCompile(`^include[ \t]+("|(required|classpath|file|url|package)\()`)

// hoconParser reads a document; its errors name the line, never the content,
// which may be secret.
type hoconParser struct {
	doc   []rune
	at    int
	line  int
	depth int
}

func newHOCONParser(doc string) *hoconParser {
	return &hoconParser{doc: []rune(strings.TrimPrefix(doc, "\ufeff")), line: 1}
}

func (p *hoconParser) peek(ahead int) rune {
	if p.at+ahead < len(p.doc) {
		return p.doc[p.at+ahead]
	}
	return hoconEnd
}

func (p *hoconParser) next() rune {
	r := p.peek(0)
	if r != hoconEnd {
		p.at++
	}
	if r == '\n' {
		p.line++
	}
	return r
}

func (p *hoconParser) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{p.line}, args...)...)
}

func (p *hoconParser) comment() bool {
	return p.peek(0) == '#' || p.peek(0) == '/' && p.peek(1) == '/'
}

// blanks skips blanks and comments of this line.
func (p *hoconParser) blanks() string {
	start := p.at
	for r := p.peek(0); r != '\n' && unicode.IsSpace(r); r = p.peek(0) {
		p.next()
	}
	skipped := string(p.doc[start:p.at])
	if p.comment() {
		for p.peek(0) != '\n' && p.peek(0) != hoconEnd {
			p.next()
		}
	}
	return skipped
}

// lines skips blanks, comments and line ends.
func (p *hoconParser) lines() {
	for p.blanks(); p.peek(0) == '\n'; p.blanks() {
		p.next()
	}
}

// separator skips what stands between two elements and reports whether there
// was anything.
func (p *hoconParser) separator() bool {
	before := p.line
	p.lines()
	if p.peek(0) == ',' {
		p.next()
		p.lines()
		return true
	}
	return p.line > before
}

func (p *hoconParser) document() (*hoconValue, error) {
	p.lines()
	end := hoconEnd
	if p.peek(0) == '{' {
		p.next()
		end = '}'
	}
	root, err := p.fields(end)
	if err != nil {
		return nil, err
	}
	if p.lines(); p.peek(0) != hoconEnd {
		return nil, p.fail("unexpected %s behind the document", quoteRune(p.peek(0)))
	}
	return root, nil
}

// fields reads the fields of an object up to and including end.
func (p *hoconParser) fields(end rune) (*hoconValue, error) {
	if p.depth++; p.depth > hoconDepth {
		return nil, p.fail("nested too deep")
	}
	defer func() { p.depth-- }()
	object := &hoconValue{kind: hoconObject, fields: map[string]*hoconValue{}, line: p.line}
	p.lines()
	for p.peek(0) != end {
		if err := p.field(object); err != nil {
			return nil, err
		}
		if !p.separator() && p.peek(0) != end {
			return nil, p.fail("unexpected %s; text with such characters needs quotes", quoteRune(p.peek(0)))
		}
	}
	p.next()
	return object, nil
}

func (p *hoconParser) field(object *hoconValue) error {
	if includeForm.MatchString(string(p.doc[p.at:min(p.at+40, len(p.doc))])) {
		return p.include()
	}
	keys, err := p.key()
	if err != nil {
		return err
	}
	appending := false
	switch r := p.peek(0); {
	case r == '{':
	case r == ':' || r == '=':
		p.next()
	case r == '+' && p.peek(1) == '=':
		p.next()
		p.next()
		appending = true
	default:
		return p.fail("expected = or : or { behind a key, found %s", quoteRune(r))
	}
	p.lines()
	value, err := p.value()
	if err != nil {
		return err
	}
	if appending {
		earlier := &hoconValue{kind: hoconReference, text: strings.Join(keys, "."), optional: true, line: p.line}
		added := &hoconValue{kind: hoconList, elements: []*hoconValue{value}, line: p.line}
		value = &hoconValue{kind: hoconSequence, elements: []*hoconValue{earlier, added}, line: p.line}
	}
	object.insert(keys, value)
	return nil
}

// include tolerates what an invoker's configuration includes: resources that
// come with OpenWhisk, whose values are our defaults. A file would be lost
// silently, so it is refused.
func (p *hoconParser) include() error {
	var resource string
	for p.peek(0) != '\n' && p.peek(0) != hoconEnd && p.peek(0) != '}' && p.peek(0) != ',' {
		resource += string(p.next())
	}
	if strings.Contains(resource, "file(") || strings.Contains(resource, "url(") {
		return p.fail("include of a file or URL is not served; put its text here")
	}
	return nil
}

// key reads a path of keys; quoted parts may hold dots.
func (p *hoconParser) key() (keys []string, err error) {
	var part strings.Builder
	for {
		switch r := p.peek(0); {
		case r == '"':
			s, err := p.quoted()
			if err != nil {
				return nil, err
			}
			part.WriteString(s)
		case r == '.':
			p.next()
			keys = append(keys, strings.TrimSpace(part.String()))
			part.Reset()
		case r == hoconEnd || strings.ContainsRune(hoconSpecial, r) || r == '(' || p.comment():
			keys = append(keys, strings.TrimSpace(part.String()))
			for _, k := range keys {
				if k == "" {
					return nil, p.fail("expected a key, found %s", quoteRune(r))
				}
			}
			return keys, nil
		default:
			part.WriteRune(p.next())
		}
	}
}

// value reads the values that stand side by side on one line.
func (p *hoconParser) value() (*hoconValue, error) {
	var parts []*hoconValue
	for {
		gap := p.blanks()
		r := p.peek(0)
		if r == hoconEnd || r == '\n' || r == ',' || r == '}' || r == ']' {
			break
		}
		part, err := p.part()
		if err != nil {
			return nil, err
		}
		if gap != "" && len(parts) > 0 {
			parts = append(parts, &hoconValue{kind: hoconText, text: gap, blank: true, line: p.line})
		}
		parts = append(parts, part)
	}
	switch len(parts) {
	case 0:
		return nil, p.fail("expected a value, found %s", quoteRune(p.peek(0)))
	case 1:
		if parts[0].kind == hoconText && parts[0].text == "null" && parts[0].optional {
			return &hoconValue{kind: hoconNothing, line: p.line}, nil
		}
		return parts[0], nil
	}
	return &hoconValue{kind: hoconSequence, elements: parts, line: p.line}, nil
}

func (p *hoconParser) part() (*hoconValue, error) {
	switch r := p.peek(0); {
	case r == '{':
		p.next()
		return p.fields('}')
	case r == '[':
		p.next()
		return p.list()
	case r == '"':
		s, err := p.quoted()
		return &hoconValue{kind: hoconText, text: s, line: p.line}, err
	case r == '$' && p.peek(1) == '{':
		return p.reference()
	case strings.ContainsRune(hoconSpecial, r):
		return nil, p.fail("unexpected %s; text with such characters needs quotes", quoteRune(r))
	}
	start := p.at
	for r := p.peek(0); r != hoconEnd && !unicode.IsSpace(r) && !strings.ContainsRune(hoconSpecial, r) && !p.comment(); r = p.peek(0) {
		p.next()
	}
	// optional marks text that was not quoted: only that can be null.
	return &hoconValue{kind: hoconText, text: string(p.doc[start:p.at]), optional: true, line: p.line}, nil
}

func (p *hoconParser) list() (*hoconValue, error) {
	if p.depth++; p.depth > hoconDepth {
		return nil, p.fail("nested too deep")
	}
	defer func() { p.depth-- }()
	list := &hoconValue{kind: hoconList, line: p.line}
	p.lines()
	for p.peek(0) != ']' {
		element, err := p.value()
		if err != nil {
			return nil, err
		}
		list.elements = append(list.elements, element)
		if !p.separator() && p.peek(0) != ']' {
			return nil, p.fail("expected , or ] in a list, found %s", quoteRune(p.peek(0)))
		}
	}
	p.next()
	return list, nil
}

func (p *hoconParser) reference() (*hoconValue, error) {
	v := &hoconValue{kind: hoconReference, line: p.line}
	p.next()
	p.next()
	if p.peek(0) == '?' {
		p.next()
		v.optional = true
	}
	keys, err := p.key()
	if err != nil {
		return nil, err
	}
	if p.peek(0) != '}' {
		return nil, p.fail("expected } at the end of a substitution, found %s", quoteRune(p.peek(0)))
	}
	p.next()
	v.text = strings.Join(keys, ".")
	return v, nil
}

// quoted reads "..." with JSON's escapes, or """...""" without any.
func (p *hoconParser) quoted() (string, error) {
	start := p.at
	if p.next(); p.peek(0) == '"' && p.peek(1) == '"' {
		p.next()
		p.next()
		return p.tripleQuoted()
	}
	for {
		switch r := p.next(); r {
		case '"':
			s, err := strconv.Unquote(strings.ReplaceAll(string(p.doc[start:p.at]), `\/`, `/`))
			if err != nil {
				return "", p.fail("a quoted text has a wrong escape")
			}
			return s, nil
		case '\\':
			p.next()
		case hoconEnd, '\n':
			return "", p.fail("a quote is not closed")
		}
	}
}

// tripleQuoted ends at the last of three or more quotes.
func (p *hoconParser) tripleQuoted() (string, error) {
	start := p.at
	for {
		if p.peek(0) == '"' && p.peek(1) == '"' && p.peek(2) == '"' && p.peek(3) != '"' {
			s := string(p.doc[start:p.at])
			p.at += 3
			return s, nil
		}
		if p.next() == hoconEnd {
			return "", p.fail("a triple quote is not closed")
		}
	}
}
