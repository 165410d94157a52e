package elasticsearch

import (
	"fmt"
	"strings"
)

// Pattern makes the name of an index out of a namespace, as Java's formatter
// would: %s stands for the namespace in lower case, %% for a percent sign.
// Without %s all namespaces share one index.
type Pattern struct {
	before, after string
	split         bool // the namespace stands between the two
}

// parsePattern reads a pattern. Slashes that it begins with are dropped, as the
// original does.
func parsePattern(s string) (Pattern, error) {
	var p Pattern
	var b strings.Builder
	for rest := strings.TrimLeft(s, "/"); rest != ""; {
		text, after, found := strings.Cut(rest, "%")
		b.WriteString(text)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "%"):
			b.WriteByte('%')
			after = after[1:]
		case !p.split && (strings.HasPrefix(after, "s") || strings.HasPrefix(after, "1$s")):
			p.before, p.split = b.String(), true
			b.Reset()
			after = strings.TrimPrefix(strings.TrimPrefix(after, "1$"), "s")
		default:
			return Pattern{}, fmt.Errorf("index pattern %q: a %% stands before s, once, or before another %%", s)
		}
		rest = after
	}
	p.after = b.String()
	if p.before+p.after == "" && !p.split {
		return Pattern{}, fmt.Errorf("index pattern %q names no index", s)
	}
	return p, nil
}

// Index is the name for a namespace.
func (p Pattern) Index(namespace string) string {
	if !p.split {
		return p.after
	}
	return p.before + strings.ToLower(namespace) + p.after
}
