package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

var errQuote = errors.New("a quote is not closed")

// systemProperties lists the -Dkey=value options of a JVM command line, in order. It
// skips other options.
func systemProperties(line string) ([]entry, error) {
	parts, err := shellWords(line)
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, w := range parts {
		name, v, _ := strings.Cut(strings.TrimPrefix(w, "-D"), "=")
		if strings.HasPrefix(w, "-D") && name != "" {
			out = append(out, entry{name, v})
		}
	}
	return out, nil
}

// shellWords splits a line at blanks and removes quotes as a shell does: single quotes,
// double quotes and backslashes. It expands nothing.
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	inWord, escaped, quote := false, false, byte(0)
	for i := range len(line) {
		switch c := line[i]; {
		case escaped:
			escaped = false
			word.WriteByte(c)
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case quote == 0 && strings.IndexByte(" \t\n\r", c) >= 0:
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	switch {
	case quote != 0:
		return nil, errQuote
	case escaped: // a backslash at the end of the line
		word.WriteByte('\\')
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// FindProperties searches dir and its parents for whisk.properties, as OpenWhisk does;
// single-machine deployments leave the file in their source tree. It returns the file's
// path and text, or empty strings if there is none. dir is a path in root, such as
// "home/me/openwhisk" in os.DirFS("/").
func FindProperties(root fs.FS, dir string) (at, text string, err error) {
	for {
		at = path.Join(dir, "whisk.properties")
		data, err := fs.ReadFile(root, at)
		if err == nil {
			return at, string(data), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", "", fmt.Errorf("read properties: %w", err)
		}
		if dir == "." {
			return "", "", nil
		}
		dir = path.Dir(dir)
	}
}

// propertiesFile parses key=value lines. A line that begins with "#" is a comment.
func propertiesFile(doc string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		name, v, ok := strings.Cut(line, "=")
		if ok && !strings.HasPrefix(line, "#") {
			m[strings.TrimSpace(name)] = strings.TrimSpace(v)
		}
	}
	return m
}

// parseArgs reads the identity arguments in any order, as "--name value" or
// "--name=value". The last occurrence of an argument wins, and a blank value means
// unset. The error begins with OpenWhisk's words.
func parseArgs(args []string, id *Identity) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	text := func(name string, at *string) {
		flags.Func(name, "", func(s string) error { *at = strings.TrimSpace(s); return nil })
	}
	number := func(name string, at **int) {
		flags.Func(name, "", func(s string) error {
			if *at = nil; strings.TrimSpace(s) == "" {
				return nil
			}
			n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
			*at = new(int(n))
			return err
		})
	}
	text("uniqueName", &id.UniqueName)
	text("displayedName", &id.DisplayedName)
	number("id", &id.ID)
	number("overwriteId", &id.OverwriteID)
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return fmt.Errorf("Error processing command line arguments List(%s); "+ //nolint:staticcheck // the original's words
			"expected [--uniqueName S] [--displayedName S] [--id N] [--overwriteId N], N an integer from 0", strings.Join(args, ", "))
	}
	return nil
}
