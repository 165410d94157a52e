package sim

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table reads comma-separated text row by row. It keeps its first error, with
// file and line, and ends there. Columns are found by their names in the first
// line, so their order is free and further ones do no harm.
type table struct {
	name    string
	rows    *csv.Reader
	line    int
	header  []string
	fields  []string
	columns map[string]int
	err     error
}

// column is one that the caller asks for, and the spellings that it may have.
type column struct {
	name      string
	spellings []string
	optional  bool
}

// bom is Unicode's byte order mark, which some editors begin UTF-8 with.
const bom = "\ufeff"

// newTable reads the header.
func newTable(name string, r io.Reader, columns ...column) *table {
	text := bufio.NewReader(r)
	if first, _ := text.Peek(len(bom)); string(first) == bom {
		_, _ = text.Discard(len(bom))
	}
	t := &table{name: name, rows: csv.NewReader(text), columns: make(map[string]int)}
	t.rows.FieldsPerRecord, t.rows.ReuseRecord, t.rows.TrimLeadingSpace = -1, true, true
	if !t.read() {
		t.err = cmp.Or(t.err, fmt.Errorf("%s: empty", name))
		return t
	}
	t.header = slices.Clone(t.fields)
	for _, c := range columns {
		t.find(c)
	}
	return t
}

func (t *table) find(c column) {
	for i, h := range t.header {
		if !slices.ContainsFunc(c.spellings, func(s string) bool { return strings.EqualFold(h, s) }) {
			continue
		}
		if t.has(c.name) {
			t.fail("column %s twice", c.name)
		}
		t.columns[c.name] = i
	}
	if !t.has(c.name) && !c.optional {
		t.fail("no column %s", strings.Join(c.spellings, " or "))
	}
}

// next reads the next row; false at the end of the file and after an error.
func (t *table) next() bool {
	if t.err != nil || !t.read() {
		return false
	}
	if len(t.fields) != len(t.header) {
		t.fail("%d fields, the header has %d", len(t.fields), len(t.header))
	}
	return t.err == nil
}

// read takes the next line that is not blank.
func (t *table) read() bool {
	for {
		fields, err := t.rows.Read()
		var bad *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return false
		case errors.As(err, &bad):
			t.line = bad.StartLine
			t.fail("field %d: %w", len(fields)+1, bad.Err)
			return false
		case err != nil:
			t.line++
			t.fail("read: %w", err)
			return false
		}
		t.line, _ = t.rows.FieldPos(0)
		for i, f := range fields {
			fields[i] = strings.TrimSpace(f)
		}
		if len(fields) > 1 || fields[0] != "" {
			t.fields = fields
			return true
		}
	}
}

// fail keeps an error at the present line, if it is the first.
func (t *table) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%s:%d: %w", t.name, t.line, fmt.Errorf(format, args...))
	}
}

func (t *table) has(column string) bool { _, ok := t.columns[column]; return ok }

// text returns a field that must not be empty.
func (t *table) text(column string) string {
	s := t.fields[t.columns[column]]
	if s == "" {
		t.fail("%s is empty", column)
	}
	return s
}

// number returns a finite number within bounds, or 0 after an error.
func (t *table) number(column string, least, most float64) float64 {
	return t.numberAt(column, t.columns[column], least, most)
}

func (t *table) numberAt(column string, field int, least, most float64) float64 {
	s := t.fields[field]
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), math.IsNaN(v), math.IsInf(v, 0) && err == nil:
		t.fail("%s %q is not a number", column, s)
	case v < least:
		t.fail("%s %s is below %v", column, s, least)
	case v > most:
		t.fail("%s %s is above %v", column, s, most)
	default:
		return v
	}
	return 0
}
