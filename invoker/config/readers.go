package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

var errQuote = errors.New("a quote is not closed")

// systemProperties lists the -Dkey=value options of a JVM command line, in
// order. Other options are none of ours.
func systemProperties(line string) ([]entry, error) {
	parts, err := ShellWords(line, " \t\n\r")
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

// ShellWords splits a line at the blanks and takes quotes away as a shell does:
// single quotes, double quotes and backslashes. Nothing is expanded.
func ShellWords(line, blanks string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped, quote := false, false, byte(0)
	end := func() {
		if inWord {
			words = append(words, word.String())
			word.Reset()
		}
		inWord = false
	}
	for i := range len(line) {
		switch c := line[i]; {
		case escaped:
			escaped = false
			word.WriteByte(c)
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case quote == 0 && strings.IndexByte(blanks, c) >= 0:
			end()
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errQuote
	}
	if escaped { // nothing is behind it
		word.WriteByte('\\')
	}
	end()
	return words, nil
}

// propertiesName is the file that deployments of one machine leave in their
// source tree.
const propertiesName = "whisk.properties"

// FindProperties searches for whisk.properties in dir and its parents, as the
// original does, and returns its path and text; both are empty when there is
// none. dir is a path of root, such as "home/me/openwhisk" in os.DirFS("/").
func FindProperties(root fs.FS, dir string) (at, text string, err error) {
	for {
		at = path.Join(dir, propertiesName)
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
// "--name=value". The last one of a kind wins; blank means unset.
func parseArgs(args []string, id *Identity) error {
	given := map[string]string{}
	for i := 0; i < len(args); i++ {
		name, v, joined := strings.Cut(args[i], "=")
		switch name {
		case "--id", "--uniqueName", "--displayedName", "--overwriteId":
		default:
			return argsError(args)
		}
		if !joined {
			if i++; i == len(args) {
				return argsError(args)
			}
			v = args[i]
		}
		given[name] = strings.TrimSpace(v)
	}
	id.UniqueName, id.DisplayedName = given["--uniqueName"], given["--displayedName"]
	var err error
	if id.ID, err = number(given["--id"]); err != nil {
		return argsError(args)
	}
	if id.OverwriteID, err = number(given["--overwriteId"]); err != nil {
		return argsError(args)
	}
	return nil
}

func number(s string) (*int, error) {
	if s == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return nil, errBad
	}
	i := int(n)
	return &i, nil
}

// badArgs begins the error as it does in the original.
const badArgs = "Error processing command line arguments"

func argsError(args []string) error {
	return fmt.Errorf("%s List(%s); "+
		"expected [--uniqueName S] [--displayedName S] [--id N] [--overwriteId N], N an integer from 0",
		badArgs, strings.Join(args, ", "))
}
