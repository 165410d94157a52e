package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// parseJAAS reads one entry of the JAAS format as Kafka's Java client reads it:
//
//	class required name="value" name='value' name=value;
//
// A quote that is not closed is an error here, and not in Java. Errors name
// positions, not text, which may be secret.
func parseJAAS(s string) (module string, options map[string]string, err error) {
	tokens, err := jaasTokens(s)
	if err != nil {
		return "", nil, err
	}
	take := func(kind byte, want string) string {
		t := tokens[0]
		switch {
		case err != nil:
		case t.kind == kind:
			tokens = tokens[1:]
			return t.text
		case t.kind == jaasEnd:
			err = fmt.Errorf("it ends where there should be %s", want)
		default:
			err = fmt.Errorf("at character %d there should be %s", t.position, want)
		}
		return ""
	}
	module = take(jaasText, "the class of a login module")
	flag := strings.ToLower(take(jaasText, "required"))
	if err == nil && !slices.Contains([]string{"required", "requisite", "sufficient", "optional"}, flag) {
		err = fmt.Errorf("%q does not follow the class of the login module", "required")
	}
	options = map[string]string{}
	for err == nil && tokens[0].kind != ';' {
		name := take(jaasText, "the name of an option, or a semicolon at the end")
		take('=', "= and a value; a name or value with other than letters, digits, dots and dashes must be in double quotes")
		options[name] = take(jaasText, "a value")
	}
	take(';', "a semicolon")
	take(jaasEnd, "nothing more: it has one login module")
	return module, options, err
}

// Kinds of tokens. The tokens '=' and ';' are their own kinds.
const (
	jaasEnd  = 0
	jaasText = 'a' // a word or a quoted text
)

type jaasToken struct {
	kind     byte
	text     string
	position int // position of its first byte, from 1
}

var (
	jaasBlank = regexp.MustCompile(`^(?:[\x00-\x20]|//[^\n]*|/\*(?s:.*?)\*/)*`)
	// A sign, a word, or a quoted text.
	jaasPattern = regexp.MustCompile(`^(?:([=;])|([A-Za-z_$[:^ascii:]][A-Za-z0-9_$.[:^ascii:]-]*)|` +
		`"((?:[^"\\\n\r]|\\(?s:.))*)"|'((?:[^'\\\n\r]|\\(?s:.))*)')`)
	jaasEscape = regexp.MustCompile(`\\(?:[0-3][0-7]{0,2}|[4-7][0-7]?|(?s:.))`)
)

// jaasTokens splits an entry into tokens as Java's StreamTokenizer does. The last token
// is jaasEnd.
func jaasTokens(s string) (all []jaasToken, err error) {
	for at := 0; ; {
		at += len(jaasBlank.FindString(s[at:]))
		m := jaasPattern.FindStringSubmatch(s[at:])
		switch {
		case at == len(s):
			return append(all, jaasToken{kind: jaasEnd, position: at + 1}), nil
		case m != nil:
		case strings.HasPrefix(s[at:], "/*"):
			return nil, fmt.Errorf("the comment at character %d is not closed", at+1)
		case s[at] == '"' || s[at] == '\'':
			return nil, fmt.Errorf("the quote at character %d is not closed on its line", at+1)
		default: // in Java, a number is not a word, and another sign is a separate token
			return nil, fmt.Errorf("character %d is not the beginning of a word: put the text in double quotes", at+1)
		}
		t := jaasToken{kind: jaasText, text: m[2] + jaasEscape.ReplaceAllStringFunc(m[3]+m[4], unescapeJava), position: at + 1}
		if m[1] != "" {
			t.kind = m[1][0]
		}
		all = append(all, t)
		at += len(m[0])
	}
}

// unescapeJava decodes a backslash and the characters after it.
func unescapeJava(escape string) string {
	code := escape[1:]
	if n, err := strconv.ParseUint(code, 8, 16); err == nil {
		return string(rune(n))
	}
	if i := strings.Index("abfnrtv", code); i >= 0 {
		return "\a\b\f\n\r\t\v"[i : i+1]
	}
	return code
}
