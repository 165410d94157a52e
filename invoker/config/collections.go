package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// entry is one path, relative to a key, and its text.
type entry struct{ path, text string }

func joinCommas(all []string) string { return strings.Join(all, ",") }

// list is a comma-separated text, or a numbered key for each element.
func list(at *[]string) value {
	v := field(at, "list: one value per numbered key, or comma-separated",
		func(s string) ([]string, error) { return splitCommas(s), nil }, joinCommas)
	v.setBelow = func(below []entry) (err error) {
		*at, err = numbered(below)
		return err
	}
	return v
}

// quoted is a list that may stand between blanks and single quotes: Ansible
// renders it as " 'a,b' ".
func quoted(at *[]string) value {
	v := list(at)
	set := v.set
	v.set = func(s string) error { return set(strings.Trim(s, " \t'\"")) }
	return v
}

// properties is a map of client properties as Kafka names them. It renders
// without their secrets.
func properties(at *map[string]string) value {
	return value{
		allowed: "text for each name below",
		set:     func(string) error { return errBad },
		text: func() string {
			return joinPairs(*at, func(name, v string) string {
				if secretName(name) {
					return mask
				}
				return v
			})
		},
		setBelow: func(below []entry) error {
			m := make(map[string]string, len(below))
			for _, e := range below {
				m[strings.ReplaceAll(e.path, "-", ".")] = e.text
			}
			*at = m
			return nil
		},
	}
}

// lists is a map of lists.
func lists(at *map[string][]string) value {
	return value{
		allowed: "for each name below a list: numbered keys, or one text",
		set:     func(string) error { return errBad },
		text: func() string {
			return joinPairs(*at, func(_ string, elements []string) string { return strings.Join(elements, "|") })
		},
		setBelow: func(below []entry) (err error) {
			*at, err = parseLists(below)
			return err
		},
	}
}

func parseLists(below []entry) (map[string][]string, error) {
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
		elements, err := numbered(part)
		if err != nil {
			return nil, err
		}
		m[name] = elements
	}
	return m, nil
}

// pairs is a comma-separated text of name=value.
func pairs[T any](at *map[string]T, allowed string, parse func(name, text string) (T, error), format func(T) string) value {
	v := own(field(at, allowed, func(s string) (map[string]T, error) {
		m := map[string]T{}
		for _, one := range splitCommas(s) {
			name, text, ok := strings.Cut(one, "=")
			name = strings.TrimSpace(name)
			if !ok || name == "" {
				return nil, errBad
			}
			v, err := parse(name, strings.TrimSpace(text))
			if err != nil {
				return nil, errBad
			}
			m[name] = v
		}
		return m, nil
	}, func(m map[string]T) string { return joinPairs(m, func(_ string, v T) string { return format(v) }) }))
	v.setBelow = func(below []entry) error {
		elements, err := numbered(below)
		if err != nil {
			return err
		}
		return v.set(joinCommas(elements))
	}
	return v
}

// weights maps flows and namespaces to weights.
func weights(at *map[string]float64) value {
	return pairs(at, "comma-separated namespace/action=weight or namespace=weight, weights above 0 and at most 1000",
		func(_, text string) (w float64, err error) {
			if w, err = strconv.ParseFloat(text, 64); err == nil && !(w > 0 && w <= 1000) {
				err = errBad
			}
			return w, err
		}, formatReal)
}

// limits maps functions and namespaces, or namespaces alone, to sizes.
func limits(at *map[string]Size, namespaces bool) value {
	allowed := "comma-separated namespace/path/action=size, namespace=size or *=size, such as guest=4 GB"
	if namespaces {
		allowed = "comma-separated namespace=size or *=size, such as guest=16 GB"
	}
	return pairs(at, allowed, func(name, text string) (n Size, err error) {
		if namespaces && strings.Contains(name, "/") {
			return 0, errBad
		}
		err = size(&n, MiB).set(text)
		return n, err
	}, Size.String)
}

// shimModes is a set of the modes of the shim.
func shimModes(at *[]string) value {
	return own(field(at, "comma-separated, of managed, count and off; managed is among them", func(s string) ([]string, error) {
		all := splitCommas(s)
		known := func(mode string) bool { return slices.Contains([]string{"managed", "count", "off"}, mode) }
		if !slices.Contains(all, "managed") || slices.ContainsFunc(all, func(mode string) bool { return !known(mode) }) {
			return nil, errBad
		}
		return all, nil
	}, joinCommas))
}

// numbered orders list elements by their number. Gaps close up, as they do in
// the original's configuration library.
func numbered(below []entry) ([]string, error) {
	texts := map[int]string{}
	for _, e := range below {
		n, err := strconv.Atoi(e.path)
		if err != nil || n < 0 {
			return nil, errBad
		}
		texts[n] = e.text
	}
	out := make([]string, 0, len(texts))
	for _, n := range slices.Sorted(maps.Keys(texts)) {
		out = append(out, texts[n])
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

// joinPairs renders a map in the order of its names.
func joinPairs[T any](m map[string]T, format func(name string, v T) string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+format(name, m[name]))
	}
	return joinCommas(parts)
}
