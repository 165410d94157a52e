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

// systemProperties lists the -Dkey=value options of a JVM command line, in
// order. Other options are none of ours.
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

// shellWords splits a line at blanks and takes quotes away as a shell does: single
// quotes, double quotes and backslashes. Nothing is expanded.
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
	case escaped: // nothing is behind it
		word.WriteByte('\\')
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// FindProperties searches for whisk.properties, which deployments of one machine
// leave in their source tree, in dir and its parents, as the original does, and
// returns its path and text; both are empty when there is none. dir is a path of root, such as "home/me/openwhisk" in os.DirFS("/").
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

// propertiesFile reads key=value lines; "#" begins a comment line.
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
// "--name=value". The last one of a kind wins; blank means unset. The error begins as
// it does in the original.
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
