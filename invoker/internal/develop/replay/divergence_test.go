package replay

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// listed is one line of the table in docs/divergence.md: a field of a scenario
// in which we depart from the original, and why.
type listed struct {
	scenario, runtime, field, original, ours, why string

	line int
}

// list is the table, and which of its lines have been seen to be true.
type list struct {
	rows []listed

	mu   sync.Mutex
	seen map[int]bool
}

const divergences = "../../../../docs/divergence.md"

// header is the table's first line; the test reads the first table that has it.
var header = []string{"scenario", "runtime", "field", "original", "ours", "why"}

func loadList(t *testing.T) *list {
	t.Helper()
	l := &list{seen: map[int]bool{}}
	lines := bufio.NewScanner(bytes.NewReader(harness.Read(t, divergences)))
	in := false
	for n := 1; lines.Scan(); n++ {
		row, ok := cells(lines.Text())
		switch {
		case !ok:
			in = false
		case slices.Equal(row, header):
			in = true
		case in && !strings.HasPrefix(row[0], "-"):
			check.Equal(check.Must(t), len(row), len(header), "%s:%d: cells of a line of the table", divergences, n)
			check.That(check.Must(t), !slices.Contains(row, ""), "%s:%d: a cell is empty", divergences, n)
			l.rows = append(l.rows, listed{row[0], row[1], row[2], row[3], row[4], row[5], n})
		}
	}
	check.Greater(check.Must(t), len(l.rows), 0, "%s has no table of differences", divergences)
	return l
}

// cells divides a line of a table.
func cells(line string) ([]string, bool) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") || len(line) < 2 {
		return nil, false
	}
	const bar = "\x00"
	line = strings.ReplaceAll(line[1:len(line)-1], `\|`, bar)
	var row []string
	for _, cell := range strings.Split(line, "|") {
		cell = strings.Trim(strings.TrimSpace(cell), "`")
		row = append(row, strings.ReplaceAll(cell, bar, "|"))
	}
	return row, true
}

// allows reports whether the list has a difference, and remembers that it is
// true.
func (l *list) allows(scenario, runtime string, d difference) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := false
	for i, row := range l.rows {
		if row.scenario == scenario && row.on(runtime) && row.field == d.field &&
			like(row.original, d.original) && like(row.ours, d.ours) {
			l.seen[i], found = true, true
		}
	}
	return found
}

func (r listed) on(runtime string) bool { return r.runtime == runtime || r.runtime == "both" }

// like compares a cell with a value: three dots stand for any text.
func like(cell, value string) bool {
	value = strings.Join(strings.Fields(value), " ") // a cell is one line
	parts := strings.Split(cell, "...")
	if !strings.HasPrefix(value, parts[0]) {
		return false
	}
	value = value[len(parts[0]):]
	for i, part := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(value, part)
		}
		at := strings.Index(value, part)
		if at < 0 {
			return false
		}
		value = value[at+len(part):]
	}
	return value == ""
}

// stale lists the lines that a scenario should have made true and has not.
func (l *list) stale(runtime string, ran map[string]bool) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, row := range l.rows {
		if ran[row.scenario] && row.on(runtime) && !l.seen[i] {
			all = append(all, fmt.Sprintf("%s:%d: %s, %s: this difference does not occur any more", divergences, row.line, row.scenario, row.field))
		}
	}
	return all
}

func TestListLikes(t *testing.T) {
	for _, c := range []struct {
		cell, value string
		want        bool
	}{
		{"result, completion", "result, completion", true},
		{"a...", "abc", true},
		{"...c", "abc", true},
		{"a...c...e", "abcde", true},
		{"a...x", "abc", false},
		{"", "x", false},
		{"a b", "a\n  b", true},
	} {
		check.Equal(t, like(c.cell, c.value), c.want, "cell %q, value %q", c.cell, c.value)
	}
}

func TestListFindsStaleRows(t *testing.T) {
	l := &list{seen: map[int]bool{}, rows: []listed{
		{scenario: "a", runtime: "both", field: "acks", original: "none", ours: "one", why: "w", line: 1},
		{scenario: "a", runtime: "docker", field: "record", original: "none", ours: "one", why: "w", line: 2},
		{scenario: "b", runtime: "process", field: "acks", original: "none", ours: "one", why: "w", line: 3},
	}}
	ran := map[string]bool{"a": true}
	stale := l.stale("process", ran)
	check.Equal(t, len(stale), 1, "stale before: %v", stale)
	check.Contains(t, strings.Join(stale, "\n"), ":1:", "stale before")
	for _, c := range []struct {
		difference
		want bool
	}{
		{difference{"acks", "none", "two"}, false}, {difference{"record", "none", "one"}, false}, {difference{"acks", "none", "one"}, true},
	} {
		check.Equal(t, l.allows("a", "process", c.difference), c.want, "%s", c.difference)
	}
	stale = l.stale("process", ran)
	check.Equal(t, len(stale), 0, "stale after: %v", stale)
}
