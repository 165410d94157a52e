package config

import (
	"errors"
	"strings"
)

var errQuote = errors.New("a quote is not closed")

// systemProperties lists the -Dkey=value options of a JVM command line, in
// order. Other options are none of ours.
func systemProperties(line string) ([]entry, error) {
	words, err := shellWords(line)
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, w := range words {
		name, v, _ := strings.Cut(strings.TrimPrefix(w, "-D"), "=")
		if strings.HasPrefix(w, "-D") && name != "" {
			out = append(out, entry{name, v})
		}
	}
	return out, nil
}

// shellWords splits a line at blanks as a shell does, with single quotes,
// double quotes and backslashes. Nothing is expanded.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case r == '\\' && quote != '\'' && i+1 < len(runes):
			i++
			word.WriteRune(runes[i])
			inWord = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errQuote
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
