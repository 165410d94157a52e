package config

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// collection is a value that may also be written as several paths below its
// key: list elements by number, map entries by name.
type collection interface {
	value
	// setBelow fills the place from the paths below the key, sorted.
	setBelow(below []entry) error
}

// entry is one path, relative to a key, and its text.
type entry struct{ path, text string }

type listValue struct{ at *[]string }

func list(at *[]string) value          { return listValue{at} }
func (v listValue) String() string     { return strings.Join(*v.at, ",") }
func (v listValue) allowed() string    { return "list: one value per numbered key, or comma-separated" }
func (v listValue) set(s string) error { *v.at = splitCommas(s); return nil }

func (v listValue) setBelow(below []entry) error {
	items, err := numbered(below)
	*v.at = items
	return err
}

// commaList is a list that is only ever written in one text.
type commaValue struct{ at *[]string }

func commaList(at *[]string) value      { return commaValue{at} }
func (v commaValue) String() string     { return strings.Join(*v.at, ",") }
func (v commaValue) allowed() string    { return "comma-separated text" }
func (v commaValue) set(s string) error { *v.at = splitCommas(s); return nil }

// wordsValue is a comma-separated text around which deployments leave blanks
// and single quotes: Ansible renders it as " ” " or " 'a,b' ".
type wordsValue struct{ at *[]string }

func words(at *[]string) value          { return wordsValue{at} }
func (v wordsValue) String() string     { return strings.Join(*v.at, ",") }
func (v wordsValue) allowed() string    { return "comma-separated text" }
func (v wordsValue) set(s string) error { *v.at = splitCommas(strings.Trim(s, " \t'\"")); return nil }

// propertiesValue is a map of client properties as Kafka names them.
type propertiesValue struct{ at *map[string]string }

func properties(at *map[string]string) value { return propertiesValue{at} }
func (v propertiesValue) String() string     { return joinPairs(*v.at) }
func (v propertiesValue) allowed() string    { return "text for each name below" }
func (v propertiesValue) set(string) error   { return errBad }

func (v propertiesValue) setBelow(below []entry) error { //nolint:unparam // any text is a property; other collections refuse some
	m := make(map[string]string, len(below))
	for _, e := range below {
		m[strings.ReplaceAll(e.path, "-", ".")] = e.text
	}
	*v.at = m
	return nil
}

// listsValue is a map of lists.
type listsValue struct{ at *map[string][]string }

func lists(at *map[string][]string) value { return listsValue{at} }
func (v listsValue) allowed() string      { return "for each name below a list: numbered keys, or one text" }
func (v listsValue) set(string) error     { return errBad }

func (v listsValue) String() string {
	m := make(map[string]string, len(*v.at))
	for name, items := range *v.at {
		m[name] = strings.Join(items, "|")
	}
	return joinPairs(m)
}

func (v listsValue) setBelow(below []entry) error {
	parts := map[string][]entry{}
	m := map[string][]string{}
	for _, e := range below {
		name, index, isList := strings.Cut(e.path, ".")
		if isList {
			parts[name] = append(parts[name], entry{index, e.text})
		} else if e.text != "" {
			m[name] = []string{e.text}
		}
	}
	for name, part := range parts {
		items, err := numbered(part)
		if err != nil {
			return err
		}
		m[name] = items
	}
	*v.at = m
	return nil
}

// weightsValue maps flows and namespaces to weights.
type weightsValue struct{ at *map[string]float64 }

func weights(at *map[string]float64) value { return weightsValue{at} }

func (v weightsValue) allowed() string {
	return "comma-separated namespace/action=weight or namespace=weight, weights above 0 and at most 1000"
}

func (v weightsValue) String() string {
	m := make(map[string]string, len(*v.at))
	for name, w := range *v.at {
		m[name] = strconv.FormatFloat(w, 'g', -1, 64)
	}
	return joinPairs(m)
}

func (v weightsValue) set(s string) error {
	m := map[string]float64{}
	for _, one := range splitCommas(s) {
		i := strings.LastIndexByte(one, '=')
		if i <= 0 {
			return errBad
		}
		w, err := strconv.ParseFloat(strings.TrimSpace(one[i+1:]), 64)
		if err != nil || !(w > 0 && w <= 1000) {
			return errBad
		}
		m[strings.TrimSpace(one[:i])] = w
	}
	*v.at = m
	return nil
}

func (v weightsValue) setBelow(below []entry) error {
	items, err := numbered(below)
	if err != nil {
		return err
	}
	return v.set(strings.Join(items, ","))
}

// numbered orders list elements by their number. Gaps close up, as they do in
// the original's configuration library.
func numbered(below []entry) ([]string, error) {
	type item struct {
		at   int
		text string
	}
	items := make([]item, 0, len(below))
	for _, e := range below {
		n, err := strconv.Atoi(e.path)
		if err != nil || n < 0 {
			return nil, errBad
		}
		items = append(items, item{n, e.text})
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.at, b.at) })
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = it.text
	}
	return out, nil
}

func splitCommas(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func joinPairs(m map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name + "=" + m[name])
	}
	return b.String()
}

// limitsValue maps functions and namespaces to sizes.
type limitsValue struct {
	at      *map[string]Size
	actions bool // rules for actions may be said, too
}

func limits(at *map[string]Size) value { return limitsValue{at, true} }

// tenants is the same of namespaces alone.
func tenants(at *map[string]Size) value { return limitsValue{at, false} }

func (v limitsValue) allowed() string {
	if !v.actions {
		return "comma-separated namespace=size or *=size, such as guest=16 GB"
	}
	return "comma-separated namespace/path/action=size, namespace=size or *=size, such as guest=4 GB"
}

func (v limitsValue) String() string {
	m := make(map[string]string, len(*v.at))
	for name, n := range *v.at {
		m[name] = n.String()
	}
	return joinPairs(m)
}

func (v limitsValue) set(s string) error {
	m := map[string]Size{}
	for _, one := range splitCommas(s) {
		name, text, ok := strings.Cut(one, "=")
		var n Size
		if name = strings.TrimSpace(name); !ok || name == "" || !v.actions && strings.Contains(name, "/") || size(&n, int64(MiB)).set(strings.TrimSpace(text)) != nil {
			return errBad
		}
		m[name] = n
	}
	*v.at = m
	return nil
}

func (v limitsValue) setBelow(below []entry) error {
	items, err := numbered(below)
	if err != nil {
		return err
	}
	return v.set(strings.Join(items, ","))
}

// modesValue is a set of the words on the shim.
type modesValue struct{ at *[]string }

func shimModes(at *[]string) value { return modesValue{at} }

func (v modesValue) allowed() string {
	return "comma-separated, of managed, count and off; managed is among them"
}
func (v modesValue) String() string { return strings.Join(*v.at, ",") }

func (v modesValue) set(s string) error {
	all := splitCommas(s)
	for _, word := range all {
		if !slices.Contains([]string{"managed", "count", "off"}, word) {
			return errBad
		}
	}
	if !slices.Contains(all, "managed") {
		return errBad
	}
	*v.at = all
	return nil
}
