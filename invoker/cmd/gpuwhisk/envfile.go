package main

import (
	"fmt"
	"strings"
)

// parseEnvFile reads a file of variables as systemd's EnvironmentFile= does:
// NAME=value lines, comments that begin with # or ;, values in single or double
// quotes or bare, and a backslash that takes the sign behind it as it is. A
// backslash at the end of a line joins the next one.
func parseEnvFile(text string) ([]string, error) {
	var environ []string
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n", "")
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("line %d is not NAME=value", n)
		}
		plain, err := unquote(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("line %d, %s: %w", n, name, err)
		}
		environ = append(environ, name+"="+plain)
	}
	return environ, nil
}

// unquote takes quotes and backslashes away. Within single quotes a backslash
// is itself.
func unquote(s string) (string, error) {
	var out strings.Builder
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(s):
			i++
			out.WriteByte(s[i])
		default:
			out.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", fmt.Errorf("the quote %c is not closed", quote)
	}
	return out.String(), nil
}
