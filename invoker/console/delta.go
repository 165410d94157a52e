package console

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A page hears the whole of a snapshot once and then what has changed: of a
// thousand functions most are as they were a second ago, and of those that are
// not a number or two is another.
//
// What changed in a struct is an object of its fields that did, each with its
// new value, or null where it is left out now; a map likewise. What changed in a
// list whose items have a key, by the tag delta:"key", is
//
//	{"$rows": {"gone": [places], "new": [items], "set": {"field": [places, values]}}}
//
// where places count in the list as it was, without what is gone and with what
// is new at its end; null for places is all of them. Any other value that is an
// object stands as {"$set": value}, lest it be merged. page/merge.js reads this.

// differ writes changes. It keeps what it learnt of types.
type differ struct {
	out    []byte
	places []int
	plans  map[reflect.Type]*plan
	err    error

	// Of the list that is looked at, kept for the next.
	gone, kept []int
	pairs      []pair
}

// plan is how a struct's fields are written.
type plan struct {
	fields []field
	key    int // index in fields, -1 without one
}

type field struct {
	index []int
	name  string // as JSON has it, with quotes and colon
	// It is left out when it is empty, or when it is zero.
	empty, zero bool
}

func (d *differ) plan(t reflect.Type) *plan {
	if p := d.plans[t]; p != nil {
		return p
	}
	p := &plan{key: -1}
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if !f.IsExported() || f.Anonymous || tag == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if f.Tag.Get("delta") == "key" {
			p.key = len(p.fields)
		}
		p.fields = append(p.fields, field{f.Index, strconv.Quote(name) + ":", strings.Contains(options, "omitempty"), strings.Contains(options, "omitzero")})
	}
	if d.plans == nil {
		d.plans = map[reflect.Type]*plan{}
	}
	d.plans[t] = p
	return p
}

// omitted tells whether encoding/json leaves a value of the field out.
func (f field) omitted(v reflect.Value) bool {
	if f.zero {
		if z, ok := v.Interface().(interface{ IsZero() bool }); ok {
			return z.IsZero()
		}
		return v.IsZero()
	}
	if !f.empty {
		return false
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct, reflect.Array:
		return false
	}
	return v.IsZero()
}

// change gives what differs between two snapshots of one type, as JSON; nil if
// nothing does. It is the differ's, until it is called again. The items of keyed lists of the second are put in the order of
// the first's before, as whoever heard of the first has them.
func (d *differ) change(from, to any) ([]byte, error) {
	d.out, d.err = d.out[:0], nil
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	if a.Type() != b.Type() {
		return nil, fmt.Errorf("a snapshot is a %s after a %s", b.Type(), a.Type())
	}
	d.value(a, b)
	if d.err != nil || len(d.out) == 0 {
		return nil, d.err
	}
	return d.out, nil
}

// value writes a change, nothing if there is none.
func (d *differ) value(a, b reflect.Value) {
	switch {
	case a.Kind() == reflect.Pointer && a.IsNil() == b.IsNil() && !a.IsNil() && a.Elem().Kind() == reflect.Struct && !writesItself(a.Type()):
		d.value(a.Elem(), b.Elem())
	case a.Kind() == reflect.Struct && !writesItself(a.Type()):
		d.structure(a, b)
	case a.Kind() == reflect.Map && a.Type().Key().Kind() == reflect.String:
		d.table(a, b)
	case a.Kind() == reflect.Slice && d.keyed(a.Type().Elem()):
		d.rows(a, b)
	case !same(a, b):
		d.whole(b)
	}
}

// keyed tells whether items of a type, or what they point to, have a key.
func (d *differ) keyed(t reflect.Type) bool {
	t = pointed(t)
	return t.Kind() == reflect.Struct && d.plan(t).key >= 0
}

func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// whole writes a value that is not taken apart.
func (d *differ) whole(v reflect.Value) {
	at := len(d.out)
	if d.leaf(v); len(d.out) > at && d.out[at] == '{' {
		d.wrap(at, `{"$set":`)
	}
}

// wrap puts what was written since a place, if anything, into an object.
func (d *differ) wrap(from int, name string) {
	if len(d.out) > from {
		d.out = append(slices.Insert(d.out, from, []byte(name)...), '}')
	}
}

// leaf writes a value as encoding/json does.
func (d *differ) leaf(v reflect.Value) {
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if !writesItself(v.Type()) {
			d.out = strconv.AppendInt(d.out, v.Int(), 10)
			return
		}
	case reflect.String:
		if !writesItself(v.Type()) {
			d.text(v.String())
			return
		}
	case reflect.Float64:
		// As encoding/json writes them where they are neither huge nor tiny.
		if f := v.Float(); !writesItself(v.Type()) && (f == 0 || math.Abs(f) >= 1e-6 && math.Abs(f) < 1e21) {
			d.out = strconv.AppendFloat(d.out, f, 'f', -1, 64)
			return
		}
	case reflect.Bool:
		if !writesItself(v.Type()) {
			d.out = strconv.AppendBool(d.out, v.Bool())
			return
		}
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		d.err = err
	}
	d.out = append(d.out, text...)
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// text writes a text, which is nearly always one that needs no escapes.
func (d *differ) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // a text always has a form
			d.out = append(d.out, text...)
			return
		}
	}
	d.out = append(append(append(d.out, '"'), s...), '"')
}

func writesItself(t reflect.Type) bool { return t.Implements(marshaler) || t.Implements(textMarshaler) }

// same tells whether two values are equal; those that hold others by reference
// are looked through.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Int, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Float64:
		return a.Float() == b.Float()
	case reflect.Map:
		return a.Pointer() == b.Pointer() || reflect.DeepEqual(a.Interface(), b.Interface())
	case reflect.Slice, reflect.Pointer, reflect.Interface:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
	if !a.Comparable() {
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
	return a.Equal(b)
}

// named writes a change under a name, after an opening brace or a comma, or
// nothing.
func (d *differ) named(name string, from int, write func()) {
	before := len(d.out)
	if before == from {
		d.out = append(d.out, '{')
	} else {
		d.out = append(d.out, ',')
	}
	d.out = append(d.out, name...)
	start := len(d.out)
	if write(); len(d.out) == start {
		d.out = d.out[:before]
	}
}

func (d *differ) end(from int) {
	if len(d.out) > from {
		d.out = append(d.out, '}')
	}
}

func (d *differ) structure(a, b reflect.Value) {
	from := len(d.out)
	for _, f := range d.plan(a.Type()).fields {
		x, y := f.of(a), f.of(b)
		d.named(f.name, from, func() {
			switch was, is := f.omitted(x), f.omitted(y); {
			case was && is:
			case is:
				d.out = append(d.out, "null"...)
			case was:
				d.whole(y)
			default:
				d.value(x, y)
			}
		})
	}
	d.end(from)
}

func (d *differ) table(a, b reflect.Value) {
	if a.IsNil() != b.IsNil() {
		d.whole(b)
		return
	}
	from := len(d.out)
	for i := b.MapRange(); i.Next(); {
		old := a.MapIndex(i.Key())
		if old.IsValid() && same(old, i.Value()) {
			continue
		}
		d.named(quote(i.Key().String()), from, func() { d.whole(i.Value()) })
	}
	for i := a.MapRange(); i.Next(); {
		if !b.MapIndex(i.Key()).IsValid() {
			d.named(quote(i.Key().String()), from, func() { d.out = append(d.out, "null"...) })
		}
	}
	d.end(from)
}

func quote(name string) string {
	var d differ
	d.text(name)
	return string(d.out) + ":"
}

// rows puts b in the order of a and writes what differs.
func (d *differ) rows(a, b reflect.Value) {
	if b.IsNil() || a.IsNil() {
		if a.IsNil() != b.IsNil() {
			d.whole(b)
		}
		return
	}
	p := d.plan(pointed(a.Type().Elem()))
	gone, kept := d.align(a, b, p.fields[p.key].index)
	stirred := d.stirred(a, b, kept)
	from := len(d.out)
	d.named(`"gone":`, from, func() {
		if len(gone) > 0 {
			d.numbers(gone)
		}
	})
	d.named(`"new":`, from, func() {
		if n := b.Len(); n > len(kept) {
			d.leaf(b.Slice(len(kept), n))
		}
	})
	d.named(`"set":`, from, func() {
		set := len(d.out)
		for i, f := range p.fields {
			if i != p.key {
				d.named(f.name, set, func() { d.column(f, stirred, len(stirred) == b.Len()) })
			}
		}
		d.end(set)
	})
	d.end(from)
	d.wrap(from, `{"$rows":`)
}

// pair is a row that two lists have, as it was and as it is, and its place.
type pair struct {
	at     int
	was, v reflect.Value
}

// stirred lists the rows that both have, of those that are pointers only where
// they are two: what stands behind one is as it was.
func (d *differ) stirred(a, b reflect.Value, kept []int) []pair {
	pointers := a.Type().Elem().Kind() == reflect.Pointer
	out := d.pairs[:0]
	for to, was := range kept {
		x, y := a.Index(was), b.Index(to)
		if pointers {
			if x.Pointer() == y.Pointer() {
				continue
			}
			x, y = x.Elem(), y.Elem()
		}
		out = append(out, pair{to, x, y})
	}
	d.pairs = out
	return out
}

// column writes what changed of one field of rows.
func (d *differ) column(f field, rows []pair, all bool) {
	start := len(d.out)
	d.out = append(d.out, '[')
	d.places = d.places[:0]
	for i := range rows {
		if r := &rows[i]; !same(f.of(r.was), f.of(r.v)) {
			d.places = append(d.places, i)
		}
	}
	switch n := len(d.places); {
	case n == 0:
		d.out = d.out[:start]
		return
	case all && n == len(rows):
		d.out = append(d.out, "null"...)
	default:
		for i, at := range d.places {
			d.out = strconv.AppendInt(append(d.out, "[,"[min(i, 1)]), int64(rows[at].at), 10)
		}
		d.out = append(d.out, ']')
	}
	for i, at := range d.places {
		if d.out = append(d.out, ','); i == 0 {
			d.out = append(d.out, '[')
		}
		if v := f.of(rows[at].v); f.omitted(v) {
			d.out = append(d.out, "null"...)
		} else {
			d.leaf(v)
		}
	}
	d.out = append(d.out, "]]"...)
}

// of is the field's value in a struct.
func (f field) of(v reflect.Value) reflect.Value {
	if len(f.index) == 1 {
		return v.Field(f.index[0])
	}
	return v.FieldByIndex(f.index)
}

func (d *differ) numbers(list []int) {
	for i, n := range list {
		d.out = append(d.out, "[,"[min(i, 1)])
		d.out = strconv.AppendInt(d.out, int64(n), 10)
	}
	d.out = append(d.out, ']')
}

// align puts the items of b in the order of a, those that a has not at the end.
// It gives the places in a of what b has not, and of each item of both, in
// order, its place in a. Both are the differ's, until it is called again.
func (d *differ) align(a, b reflect.Value, key []int) (gone, kept []int) {
	gone, kept = d.gone[:0], d.kept[:0]
	pointers := a.Type().Elem().Kind() == reflect.Pointer
	n := b.Len()
	for i := range a.Len() {
		if to := len(kept); to < n && (pointers && a.Index(i).Pointer() == b.Index(to).Pointer() || name(a, i, key) == name(b, to, key)) {
			kept = append(kept, i)
		} else {
			gone = append(gone, i)
		}
	}
	d.gone, d.kept = gone, kept
	if len(gone) == 0 || len(kept) == n || !d.back(a, b, key) {
		return gone, kept
	}
	return d.reorder(a, b, key)
}

func name(v reflect.Value, i int, key []int) string {
	return reflect.Indirect(v.Index(i)).FieldByIndex(key).String()
}

// back tells whether what seems gone is among what seems new: the two lists are
// in different orders.
func (d *differ) back(a, b reflect.Value, key []int) bool {
	gone := make(map[string]bool, len(d.gone))
	for _, i := range d.gone {
		gone[name(a, i, key)] = true
	}
	for i := len(d.kept); i < b.Len(); i++ {
		if gone[name(b, i, key)] {
			return true
		}
	}
	return false
}

// reorder aligns lists in whatever orders.
func (d *differ) reorder(a, b reflect.Value, key []int) (gone, kept []int) {
	gone, kept = d.gone[:0], d.kept[:0]
	at := make(map[string]int, b.Len())
	for i := range b.Len() {
		at[name(b, i, key)] = i
	}
	old := reflect.MakeSlice(b.Type(), b.Len(), b.Len())
	reflect.Copy(old, b)
	taken := make([]bool, b.Len())
	to := 0
	for i := range a.Len() {
		was, there := at[name(a, i, key)]
		if !there || taken[was] {
			gone = append(gone, i)
			continue
		}
		taken[was] = true
		kept = append(kept, i)
		b.Index(to).Set(old.Index(was))
		to++
	}
	for i := range b.Len() {
		if !taken[i] {
			b.Index(to).Set(old.Index(i))
			to++
		}
	}
	d.gone, d.kept = gone, kept
	return gone, kept
}
