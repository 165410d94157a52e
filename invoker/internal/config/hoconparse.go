package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hoconSpecial lists the characters that end an unquoted text. Blanks and comments end
// it, too.
const hoconSpecial = "$\"{}[]:=,+#`^?!@*&\\\n"

const hoconSpace = `[\t\v\f\r \x{85}\p{Z}]`

var (
	hoconBlanks  = regexp.MustCompile(`^` + hoconSpace + `*`)
	hoconComment = regexp.MustCompile(`^(?:(?:#|//).*)?`)
	hoconLines   = regexp.MustCompile(`^(?:\n|` + hoconSpace + `|(?:#|//).*)*`)
	hoconQuoted  = regexp.MustCompile(`^"(?:[^"\\\n]|\\(?s:.))*"`)
	// A triple quote ends at the last three of consecutive quotes.
	hoconTriple = regexp.MustCompile(`^"""(?s:(.*?))"""("*)`)
	// includeForm matches an include statement. A key may also be named "include".
	includeForm = regexp.MustCompile(`^include[ \t]+(?:"|(?:required|classpath|file|url|package)\()[^\n},]*`)
)

// hoconParser parses a document. Parsing stops at the first error. Errors name the line,
// never the content, which may be secret.
type hoconParser struct {
	doc   string
	rest  string // unread part of doc
	depth int
	err   error
}

func parseHOCONText(doc string) (hoconObject, error) {
	doc = strings.TrimPrefix(doc, "\ufeff")
	p := &hoconParser{doc: doc, rest: doc}
	end := ""
	if p.consume(hoconLines); p.next("{") {
		end = "}"
	}
	root := p.object(end)
	if p.consume(hoconLines); p.rest != "" {
		p.fail("unexpected %c behind the document")
	}
	return root, p.err
}

func (p *hoconParser) line() int {
	return 1 + strings.Count(p.doc[:len(p.doc)-len(p.rest)], "\n")
}

// fail records the first error and discards the unread text. In text, %c is replaced by
// the next character.
func (p *hoconParser) fail(text string) {
	if p.err == nil {
		found := "the end"
		if r, size := utf8.DecodeRuneInString(p.rest); size > 0 {
			found = strconv.QuoteRune(r)
		}
		p.err = fmt.Errorf("line %d: %s", p.line(), strings.ReplaceAll(text, "%c", found))
	}
	p.rest = ""
}

// next consumes text if it comes next, and reports whether it did.
func (p *hoconParser) next(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	p.rest = rest
	return ok
}

// consume consumes and returns the match of a pattern, "" if there is none.
func (p *hoconParser) consume(pattern *regexp.Regexp) string {
	s := pattern.FindString(p.rest)
	p.rest = p.rest[len(s):]
	return s
}

// until consumes and returns the text before a character that ends accepts, before a
// comment, or before the end.
func (p *hoconParser) until(ends func(rune) bool) string {
	s := p.rest
	if i := strings.IndexFunc(s, ends); i >= 0 {
		s = s[:i]
	}
	s, _, _ = strings.Cut(s, "//")
	p.rest = p.rest[len(s):]
	return s
}

// block parses elements up to and including end, which is empty for the whole document.
// Each further element follows a comma or begins on a new line.
func (p *hoconParser) block(end, unseparated string, element func()) {
	if p.depth++; p.depth > hoconDepth {
		p.fail("nested too deep")
	}
	p.consume(hoconLines)
	for separated := true; p.err == nil; {
		switch {
		case end == "" && p.rest == "" || end != "" && p.next(end):
			p.depth--
			return
		case !separated:
			p.fail(unseparated)
			continue
		}
		element()
		separated = strings.Contains(p.consume(hoconLines), "\n")
		if p.next(",") {
			separated = true
			p.consume(hoconLines)
		}
	}
}

func (p *hoconParser) object(end string) hoconObject {
	v := hoconObject{}
	p.block(end, "unexpected %c; text with such characters needs quotes", func() { p.field(v) })
	return v
}

func (p *hoconParser) list() hoconList {
	v := hoconList{}
	p.block("]", "expected , or ] in a list, found %c", func() { v = append(v, p.sequence()) })
	return v
}

// field parses a field or an include. Included resources come with OpenWhisk, and their
// values are our defaults, so they are skipped. An included file or URL is refused,
// because its settings would be lost silently.
func (p *hoconParser) field(object hoconObject) {
	if resource := p.consume(includeForm); resource != "" {
		if strings.Contains(resource, "file(") || strings.Contains(resource, "url(") {
			p.fail("include of a file or URL is not served; put its text here")
		}
		return
	}
	keys := p.key()
	appending := p.next("+=")
	if !appending && !p.next("=") && !p.next(":") && !strings.HasPrefix(p.rest, "{") {
		p.fail("expected = or : or { behind a key, found %c")
	}
	p.consume(hoconLines)
	v := p.sequence()
	if appending { // key = ${?key} [v]
		earlier := &hoconPending{line: p.line(), path: strings.Join(keys, "."), optional: true}
		v = &hoconPending{line: p.line(), parts: []hoconPart{{value: earlier}, {value: hoconList{v}}}}
	}
	if p.err == nil {
		object.insert(keys, v)
	}
}

func endsKey(r rune) bool { return r == '.' || r == '(' || strings.ContainsRune(hoconSpecial, r) }

// key parses a path of keys. Quoted parts may contain dots.
func (p *hoconParser) key() (keys []string) {
	part := ""
	for {
		more := p.until(endsKey)
		switch {
		case more != "":
		case strings.HasPrefix(p.rest, `"`):
			more = p.quoted()
		default:
			if part = strings.TrimSpace(part); part == "" {
				p.fail("expected a key, found %c")
			}
			keys, part = append(keys, part), ""
			if !p.next(".") {
				return keys
			}
		}
		part += more
	}
}

// sequence parses the values that stand side by side on one line.
func (p *hoconParser) sequence() any {
	all, quoted := &hoconPending{line: p.line()}, false
	for {
		gap := p.consume(hoconBlanks)
		p.consume(hoconComment)
		if p.rest == "" || strings.ContainsRune("\n,}]", rune(p.rest[0])) {
			break
		}
		quoted = p.rest[0] == '"'
		all.parts = append(all.parts, hoconPart{gap, p.part()})
	}
	switch len(all.parts) {
	case 0:
		p.fail("expected a value, found %c")
	case 1:
		if one := all.parts[0].value; one != "null" || quoted {
			return one
		}
		return nil
	}
	return all
}

func endsText(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(hoconSpecial, r) }

func (p *hoconParser) part() any {
	switch {
	case p.next("{"):
		return p.object("}")
	case p.next("["):
		return p.list()
	case p.next("${"):
		v := &hoconPending{line: p.line(), optional: p.next("?")}
		v.path = strings.Join(p.key(), ".")
		if !p.next("}") {
			p.fail("expected } at the end of a substitution, found %c")
		}
		return v
	case strings.HasPrefix(p.rest, `"`):
		return p.quoted()
	}
	text := p.until(endsText)
	if text == "" {
		p.fail("unexpected %c; text with such characters needs quotes")
	}
	return text
}

// quoted parses "..." with JSON's escapes, or """...""" without escapes.
func (p *hoconParser) quoted() string {
	if strings.HasPrefix(p.rest, `"""`) {
		m := hoconTriple.FindStringSubmatch(p.rest)
		if m == nil {
			p.fail("a triple quote is not closed")
			return ""
		}
		p.rest = p.rest[len(m[0]):]
		return m[1] + m[2]
	}
	text := p.consume(hoconQuoted)
	if text == "" {
		p.fail("a quote is not closed")
		return ""
	}
	s, err := strconv.Unquote(strings.ReplaceAll(text, `\/`, `/`))
	if err != nil {
		p.fail("a quoted text has a wrong escape")
	}
	return s
}
