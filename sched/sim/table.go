package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table reads comma-separated text line by line and places every complaint at
// its file and line. Columns are found by their names in the first line, so
// their order is free and further ones do no harm.
type table struct {
	name    string
	scan    *bufio.Scanner
	line    int
	header  []string
	fields  []string
	columns map[string]int
}

// maxLine bounds one line: an Azure row of 1440 counts has about 10 kB.
const maxLine = 1 << 20

// newTable reads the header. columns maps each name that the caller will ask
// for to the spellings it may have in the file; a name that ends in "?" may
// be missing.
func newTable(name string, r io.Reader, columns map[string][]string) (*table, error) {
	t := &table{name: name, scan: bufio.NewScanner(r), columns: make(map[string]int)}
	t.scan.Buffer(make([]byte, 0, 64<<10), maxLine)
	ok, err := t.read()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%s: empty", name)
	}
	t.header = t.fields
	for _, want := range sortedKeys(columns) {
		if err := t.find(want, columns[want]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *table) find(want string, spellings []string) error {
	name, optional := strings.CutSuffix(want, "?")
	for i, h := range t.header {
		for _, s := range spellings {
			if strings.EqualFold(h, s) {
				if _, twice := t.columns[name]; twice {
					return t.complain("column %s twice", name)
				}
				t.columns[name] = i
			}
		}
	}
	if _, ok := t.columns[name]; !ok && !optional {
		return t.complain("no column %s", strings.Join(spellings, " or "))
	}
	return nil
}

// next reads the next row; false at the end of the file.
func (t *table) next() (bool, error) {
	ok, err := t.read()
	if !ok || err != nil {
		return false, err
	}
	if len(t.fields) != len(t.header) {
		return false, t.complain("%d fields, the header has %d", len(t.fields), len(t.header))
	}
	return true, nil
}

// read takes the next line that is not blank.
func (t *table) read() (bool, error) {
	for t.scan.Scan() {
		t.line++
		line := strings.TrimSuffix(t.scan.Text(), "\r")
		if t.line == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		return true, t.split(line)
	}
	if err := t.scan.Err(); err != nil {
		t.line++
		if errors.Is(err, bufio.ErrTooLong) {
			return false, t.complain("longer than %d bytes", maxLine)
		}
		return false, fmt.Errorf("%s: read line %d: %w", t.name, t.line, err)
	}
	return false, nil
}

// split takes a line apart. A field may stand in quotes, but holds neither a
// comma nor a quote: no form of trace has such names.
func (t *table) split(line string) error {
	t.fields = strings.Split(line, ",")
	for i, f := range t.fields {
		f = strings.TrimSpace(f)
		if n := len(f); n > 1 && f[0] == '"' && f[n-1] == '"' {
			f = f[1 : n-1]
		}
		if strings.Contains(f, `"`) {
			return t.complain("field %d: a quote that is not closed, or around a comma", i+1)
		}
		t.fields[i] = f
	}
	return nil
}

// complain makes an error at the present line.
func (t *table) complain(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", t.name, t.line, fmt.Sprintf(format, args...))
}

func (t *table) has(column string) bool { _, ok := t.columns[column]; return ok }

// text returns a field that must not be empty.
func (t *table) text(column string) (string, error) {
	s := t.fields[t.columns[column]]
	if s == "" {
		return "", t.complain("%s is empty", column)
	}
	return s, nil
}

// number returns a finite number within bounds.
func (t *table) number(column string, least, most float64) (float64, error) {
	return t.numberAt(column, t.columns[column], least, most)
}

func (t *table) numberAt(column string, field int, least, most float64) (float64, error) {
	s := t.fields[field]
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), math.IsNaN(v), math.IsInf(v, 0) && err == nil:
		return 0, t.complain("%s %q is not a number", column, s)
	case v < least:
		return 0, t.complain("%s %s is below %v", column, s, least)
	case v > most:
		return 0, t.complain("%s %s is above %v", column, s, most)
	}
	return v, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
