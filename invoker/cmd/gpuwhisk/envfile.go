package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// A value consists of any number of quoted texts, followed by bare text up to the
	// end of the line, without the blanks around it.
	quotedText = regexp.MustCompile(`^[ \t]*(?:'([^']*)'|"((?:[^"\\]|\\(?s:.))*)")`)
	bareText   = regexp.MustCompile(`^[ \t]*((?:[^\\\r\n]|\\(?s:.))*?)[ \t]*(?:[\r\n]|$)`)
	escaped    = regexp.MustCompile(`\\(?s:.)`)
)

// parseEnvFile parses a file of variables as systemd's EnvironmentFile= does, see
// systemd.exec(5): lines NAME=value, and comments, which begin with # or ; or have no
// "=". An assignment that systemd would drop with a warning, or a value without its end,
// is an error.
func parseEnvFile(text string) (environ []string, err error) {
	text += "\n" // an escape at the end of the file yields nothing
	for rest := text; ; {
		rest = strings.TrimLeft(rest, " \t\r\n")
		if rest == "" {
			return environ, nil
		}
		number := 1 + strings.Count(text[:len(text)-len(rest)], "\n")
		line := rest[:strings.IndexAny(rest, "\r\n")]
		name, _, assigns := strings.Cut(line, "=")
		if !assigns || strings.ContainsRune("#;", rune(line[0])) {
			rest = rest[len(line):]
			continue
		}
		rest = rest[len(name)+1:]
		if name = strings.TrimRight(name, " \t"); !variableName.MatchString(name) {
			return nil, fmt.Errorf("line %d is not NAME=value: %q is not the name of a variable", number, name)
		}
		var value string
		if value, rest, err = envValue(rest); err != nil {
			return nil, fmt.Errorf("line %d, %s: %w", number, name, err)
		}
		environ = append(environ, name+"="+value)
	}
}

// envValue parses the value at the beginning of a text.
func envValue(text string) (value, rest string, err error) {
	for quoted := quotedText.FindStringSubmatch(text); quoted != nil; quoted = quotedText.FindStringSubmatch(text) {
		value += quoted[1] + escaped.ReplaceAllStringFunc(quoted[2], func(pair string) string {
			switch {
			case pair == "\\\n":
				return ""
			case strings.Contains("\"\\`$", pair[1:]):
				return pair[1:]
			}
			return pair
		})
		text = text[len(quoted[0]):]
	}
	bare := bareText.FindStringSubmatch(text)
	if bare[1] != "" && (bare[1][0] == '\'' || bare[1][0] == '"') {
		return "", "", errors.New("a quote is not closed")
	}
	value += escaped.ReplaceAllStringFunc(bare[1], func(pair string) string { return strings.Trim(pair[1:], "\r\n") })
	return value, text[len(bare[0]):], nil
}
