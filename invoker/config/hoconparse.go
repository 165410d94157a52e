package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hoconSpecial characters end an unquoted text; blanks and comments do, too.
const hoconSpecial = "$\"{}[]:=,+#`^?!@*&\\\n"

const hoconSpace = `[\t\v\f\r \x{85}\p{Z}]`

var (
	hoconBlanks  = regexp.MustCompile(`^` + hoconSpace + `*`)
	hoconComment = regexp.MustCompile(`^(?:(?:#|//).*)?`)
	hoconLines   = regexp.MustCompile(`^(?:\n|` + hoconSpace + `|(?:#|//).*)*`)
	hoconQuoted  = regexp.MustCompile(`^"(?:[^"\\\n]|\\(?s:.))*"`)
	// A triple quote ends at the last three of its quotes.
	hoconTriple = regexp.MustCompile(`^"""(?s:(.*?))"""("*)`)
	// includeForm is how an include statement begins; a key may also be named so.
	includeForm = regexp.MustCompile(`^include[ \t]+(?:"|(?:required|classpath|file|url|package)\()[^\n},]*`)
)

// hoconParser reads a document; its errors name the line, never the content,
// which may be secret.
type hoconParser struct {
	doc   string
	rest  string // of doc, not read yet
	depth int
}

func newHOCONParser(doc string) *hoconParser {
	doc = strings.TrimPrefix(doc, "\ufeff")
	return &hoconParser{doc: doc, rest: doc}
}

func (p *hoconParser) line() int {
	return 1 + strings.Count(p.doc[:len(p.doc)-len(p.rest)], "\n")
}

func (p *hoconParser) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{p.line()}, args...)...)
}

// at names the character that is next, for an error.
func (p *hoconParser) at() string {
	if p.rest == "" {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(p.rest)
	return strconv.QuoteRune(r)
}

// next passes over a text, if it is what comes next.
func (p *hoconParser) next(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	p.rest = rest
	return ok
}

// take passes over what a pattern matches.
func (p *hoconParser) take(pattern *regexp.Regexp) string {
	s := pattern.FindString(p.rest)
	p.rest = p.rest[len(s):]
	return s
}

// until passes over what comes before any of the characters or a comment.
func (p *hoconParser) until(ends func(rune) bool) string {
	s := p.rest
	if i := strings.IndexFunc(s, ends); i >= 0 {
		s = s[:i]
	}
	s, _, _ = strings.Cut(s, "//")
	p.rest = p.rest[len(s):]
	return s
}

func (p *hoconParser) document() (*hoconValue, error) {
	p.take(hoconLines)
	end := ""
	if p.next("{") {
		end = "}"
	}
	root, err := p.fields(end)
	if err != nil {
		return nil, err
	}
	if p.take(hoconLines); p.rest != "" {
		return nil, p.fail("unexpected %s behind the document", p.at())
	}
	return root, nil
}

// block reads elements, each behind a comma or on a line of its own, up to and
// including end, which is empty at the end of the document.
func (p *hoconParser) block(end string, element func() error, unseparated func() error) error {
	if p.depth++; p.depth > hoconDepth {
		return p.fail("nested too deep")
	}
	defer func() { p.depth-- }()
	ended := func() bool { return end != "" && p.next(end) || end == "" && p.rest == "" }
	p.take(hoconLines)
	for separated := true; !ended(); {
		if !separated {
			return unseparated()
		}
		if err := element(); err != nil {
			return err
		}
		separated = strings.Contains(p.take(hoconLines), "\n")
		if p.next(",") {
			separated = true
			p.take(hoconLines)
		}
	}
	return nil
}

func (p *hoconParser) fields(end string) (*hoconValue, error) {
	object := p.value(hoconObject)
	object.fields = map[string]*hoconValue{}
	err := p.block(end, func() error { return p.field(object) }, func() error {
		return p.fail("unexpected %s; text with such characters needs quotes", p.at())
	})
	return object, err
}

func (p *hoconParser) list() (*hoconValue, error) {
	list := p.value(hoconList)
	err := p.block("]", func() error {
		element, err := p.sequence()
		list.elements = append(list.elements, element)
		return err
	}, func() error { return p.fail("expected , or ] in a list, found %s", p.at()) })
	return list, err
}

// value is a new value of this line.
func (p *hoconParser) value(kind hoconKind) *hoconValue {
	return &hoconValue{kind: kind, line: p.line()}
}

func (p *hoconParser) field(object *hoconValue) error {
	if resource := p.take(includeForm); resource != "" {
		return p.include(resource)
	}
	keys, err := p.key()
	if err != nil {
		return err
	}
	appending := p.next("+=")
	if !appending && !p.next("=") && !p.next(":") && !strings.HasPrefix(p.rest, "{") {
		return p.fail("expected = or : or { behind a key, found %s", p.at())
	}
	p.take(hoconLines)
	v, err := p.sequence()
	if err != nil {
		return err
	}
	if appending {
		earlier, added, both := p.value(hoconReference), p.value(hoconList), p.value(hoconSequence)
		earlier.text, earlier.optional = strings.Join(keys, "."), true
		added.elements = []*hoconValue{v}
		both.elements, v = []*hoconValue{earlier, added}, both
	}
	object.insert(keys, v)
	return nil
}

// include tolerates what an invoker's configuration includes: resources that
// come with OpenWhisk, whose values are our defaults. A file would be lost
// silently, so it is refused.
func (p *hoconParser) include(resource string) error {
	if strings.Contains(resource, "file(") || strings.Contains(resource, "url(") {
		return p.fail("include of a file or URL is not served; put its text here")
	}
	return nil
}

func endsKey(r rune) bool { return r == '.' || r == '(' || strings.ContainsRune(hoconSpecial, r) }

// key reads a path of keys; quoted parts may hold dots.
func (p *hoconParser) key() (keys []string, err error) {
	part := ""
	for {
		more := p.until(endsKey)
		switch {
		case more != "":
		case strings.HasPrefix(p.rest, `"`):
			if more, err = p.quoted(); err != nil {
				return nil, err
			}
		default:
			if part = strings.TrimSpace(part); part == "" {
				return nil, p.fail("expected a key, found %s", p.at())
			}
			keys, part = append(keys, part), ""
			if !p.next(".") {
				return keys, nil
			}
		}
		part += more
	}
}

// sequence reads the values that stand side by side on one line.
func (p *hoconParser) sequence() (*hoconValue, error) {
	all := p.value(hoconSequence)
	for {
		gap := p.take(hoconBlanks)
		p.take(hoconComment)
		if p.rest == "" || strings.ContainsRune("\n,}]", rune(p.rest[0])) {
			break
		}
		part, err := p.part()
		if err != nil {
			return nil, err
		}
		part.gap = gap
		all.elements = append(all.elements, part)
	}
	switch len(all.elements) {
	case 0:
		return nil, p.fail("expected a value, found %s", p.at())
	case 1:
		if one := all.elements[0]; one.kind != hoconText || one.text != "null" || !one.optional {
			return one, nil
		}
		return p.value(hoconNothing), nil
	}
	return all, nil
}

func endsText(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(hoconSpecial, r) }

func (p *hoconParser) part() (*hoconValue, error) {
	switch {
	case p.next("{"):
		return p.fields("}")
	case p.next("["):
		return p.list()
	case p.next("${"):
		return p.reference()
	}
	v := p.value(hoconText)
	if strings.HasPrefix(p.rest, `"`) {
		s, err := p.quoted()
		v.text = s
		return v, err
	}
	// optional marks text that was not quoted: only that can be null.
	if v.text, v.optional = p.until(endsText), true; v.text == "" {
		return nil, p.fail("unexpected %s; text with such characters needs quotes", p.at())
	}
	return v, nil
}

// reference reads what follows "${".
func (p *hoconParser) reference() (*hoconValue, error) {
	v := p.value(hoconReference)
	v.optional = p.next("?")
	keys, err := p.key()
	if err != nil {
		return nil, err
	}
	if !p.next("}") {
		return nil, p.fail("expected } at the end of a substitution, found %s", p.at())
	}
	v.text = strings.Join(keys, ".")
	return v, nil
}

// quoted reads "..." with JSON's escapes, or """...""" without any.
func (p *hoconParser) quoted() (string, error) {
	if strings.HasPrefix(p.rest, `"""`) {
		m := hoconTriple.FindStringSubmatch(p.rest)
		if m == nil {
			return "", p.fail("a triple quote is not closed")
		}
		p.rest = p.rest[len(m[0]):]
		return m[1] + m[2], nil
	}
	text := p.take(hoconQuoted)
	if text == "" {
		return "", p.fail("a quote is not closed")
	}
	s, err := strconv.Unquote(strings.ReplaceAll(text, `\/`, `/`))
	if err != nil {
		return "", p.fail("a quoted text has a wrong escape")
	}
	return s, nil
}
