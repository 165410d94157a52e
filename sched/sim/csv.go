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
	name   string
	rows   *csv.Reader
	header []string
	fields []string
	err    error
}

// bom is Unicode's byte order mark, which some editors begin UTF-8 with.
const bom = "\ufeff"

// newTable reads the header.
func newTable(name string, r io.Reader) *table {
	text := bufio.NewReader(r)
	if first, _ := text.Peek(len(bom)); string(first) == bom {
		_, _ = text.Discard(len(bom))
	}
	t := &table{name: name, rows: csv.NewReader(text)}
	t.rows.TrimLeadingSpace = true
	if !t.next() {
		t.err = cmp.Or(t.err, fmt.Errorf("%s: empty", name))
	}
	t.header = t.fields
	return t
}

// optional returns where a column is that may be spelled in several ways, or -1.
func (t *table) optional(spellings ...string) int {
	is := func(h string) bool {
		return slices.ContainsFunc(spellings, func(s string) bool { return strings.EqualFold(strings.TrimSpace(h), s) })
	}
	at := slices.IndexFunc(t.header, is)
	if at >= 0 && slices.ContainsFunc(t.header[at+1:], is) {
		t.fail("column %s twice", spellings[0])
	}
	return at
}

// column returns where a column is that must be there.
func (t *table) column(spellings ...string) int {
	at := t.optional(spellings...)
	if at < 0 {
		t.fail("no column %s", strings.Join(spellings, " or "))
	}
	return at
}

// next reads the next row; false at the end of the file and after an error.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	fields, err := t.rows.Read()
	var bad *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return false
	case errors.As(err, &bad):
		t.err = fmt.Errorf("%s:%d: %w", t.name, bad.StartLine, bad.Err)
	case err != nil:
		t.err = fmt.Errorf("%s: read: %w", t.name, err)
	}
	t.fields = fields
	return t.err == nil
}

// fail keeps an error of the present row, if it is the first.
func (t *table) fail(format string, args ...any) {
	if t.err == nil {
		line := 1
		if len(t.fields) > 0 {
			line, _ = t.rows.FieldPos(0)
		}
		t.err = fmt.Errorf("%s:%d: %w", t.name, line, fmt.Errorf(format, args...))
	}
}

// add keeps the error of a row's function or activation, if it is the first.
func (t *table) add(err error) {
	if err != nil {
		t.fail("%w", err)
	}
}

// text returns a field that must not be empty.
func (t *table) text(column int) string {
	s := strings.TrimSpace(t.fields[column])
	if s == "" {
		t.fail("%s is empty", t.header[column])
	}
	return s
}

// number returns a number within bounds, or 0 after an error.
func (t *table) number(column int, least, most float64) float64 {
	s := strings.TrimSpace(t.fields[column])
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), math.IsNaN(v), math.IsInf(v, 0) && err == nil:
		t.fail("%s %q is not a number", t.header[column], s)
	case v < least:
		t.fail("%s %s is below %v", t.header[column], s, least)
	case v > most:
		t.fail("%s %s is above %v", t.header[column], s, most)
	default:
		return v
	}
	return 0
}
