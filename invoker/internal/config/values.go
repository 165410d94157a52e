package config

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// entry is a path relative to a key, and the text there.
type entry struct{ path, text string }

// value connects a field of the Config with its text form.
type value struct {
	// set sets the field from the entries of a source: a single text with an empty path,
	// or, if below is true, the sorted paths below the key. set accepts the output of
	// text.
	set   func(given []entry) error
	text  func() string
	below bool
	// allowed describes the values that set accepts. special is true if the description
	// is not that of all values of the type.
	allowed string
	special bool
}

// setText sets the field from one text.
func (v value) setText(text string) error { return v.set([]entry{{"", text}}) }

// valueOf returns the value of a field. Tags describe the allowed values:
//
//	enum:"a,b"      of a text: one of these words
//	class:"a,b"     of a text: one of these classes
//	range:"lo..hi"  of a number
//	min:"1 MiB"     of a size
//	bytes:"16"      of a key in base64
//	format:"word"   of a text, a list or a map: its form, see below
func valueOf(at any, tag reflect.StructTag, secret bool) value {
	format := tag.Get("format")
	switch at := at.(type) {
	case *bool:
		return boolean(at)
	case *int:
		lo, hi := bounds(tag)
		return integer(at, int(lo), int(hi))
	case *float64:
		lo, hi := bounds(tag)
		v := real(at, lo, hi)
		if number := v.text; tag.Get("default") == "" {
			v.text = func() string {
				if *at == 0 { // unset
					return ""
				}
				return number()
			}
		}
		return v
	case *Size:
		lo, err := parseSize(cmp.Or(tag.Get("min"), "0"))
		checkTag(err, tag)
		return size(at, lo)
	case *time.Duration:
		return duration(at)
	case *[]byte:
		n, err := strconv.Atoi(tag.Get("bytes"))
		checkTag(err, tag)
		return secretBytes(at, n)
	case *string:
		words, limited := tag.Lookup("enum")
		classes, provider := tag.Lookup("class")
		switch {
		case limited:
			return choice(at, strings.Split(words, ",")...)
		case provider:
			return class(at, strings.Split(classes, ",")...)
		case secret && format != "trimmed":
			return exact(at)
		}
		return text(at)
	case *[]string:
		switch format {
		case "quoted":
			return quoted(at)
		case "modes":
			return shimModes(at)
		case "environment":
			return containerEnv(at)
		case "invokers":
			return invokers(at)
		}
		return list(at)
	case *gpu.RetentionPolicy:
		return retention(at)
	case *map[string]string:
		return properties(at)
	case *map[string][]string:
		return lists(at)
	case *map[string]float64:
		return weights(at)
	case *map[string]Size:
		return limits(at, format == "namespaces")
	}
	panic(fmt.Sprintf("there is no setting of type %T", at))
}

// bounds reads a range tag.
func bounds(tag reflect.StructTag) (lo, hi float64) {
	_, err := fmt.Sscanf(strings.Replace(tag.Get("range"), "..", " ", 1), "%g %g", &lo, &hi)
	checkTag(err, tag)
	return lo, hi
}

// checkTag panics if a tag is wrong.
func checkTag(err error, tag reflect.StructTag) {
	if err != nil {
		panic(fmt.Sprintf("%s: %v", tag, err))
	}
}

// compound returns the value of a field that parse reads from one text or from paths
// below the key, and that format renders.
func compound[T any](at *T, allowed string, parse func([]entry) (T, error), format func(T) string) value {
	return value{
		allowed: allowed, below: true,
		text: func() string { return format(*at) },
		set: func(given []entry) error {
			v, err := parse(given)
			if err == nil {
				*at = v
			}
			return err
		},
	}
}

// field returns the value of a field that parse reads from one text.
func field[T any](at *T, allowed string, parse func(string) (T, error), format func(T) string) value {
	v := compound(at, allowed, func(given []entry) (T, error) { return parse(given[0].text) }, format)
	v.below = false
	return v
}

// withOwnDescription marks the description of the allowed values as special.
func withOwnDescription(v value) value {
	v.special = true
	return v
}

func unchanged(s string) string { return s }

func text(at *string) value {
	return field(at, "text", func(s string) (string, error) { return strings.TrimSpace(s), nil }, unchanged)
}

// exact returns the value of a text whose blanks matter.
func exact(at *string) value {
	return field(at, "text", func(s string) (string, error) { return s, nil }, unchanged)
}

// choice returns the value of a word that must be one of several, in any case.
func choice(at *string, from ...string) value {
	allowed := strings.Join(from, " | ")
	if from[0] == "" {
		allowed = "(empty)" + allowed
	}
	return withOwnDescription(field(at, allowed, func(s string) (string, error) {
		i := slices.IndexFunc(from, func(one string) bool { return strings.EqualFold(one, strings.TrimSpace(s)) })
		if i < 0 {
			return "", errBad
		}
		return from[i], nil
	}, unchanged))
}

func boolean(at *bool) value {
	return field(at, "true | false", func(s string) (bool, error) {
		switch strings.ToLower(strings.TrimSpace(s)) {
		case "true", "yes", "on":
			return true, nil
		case "false", "no", "off":
			return false, nil
		}
		return false, errBad
	}, strconv.FormatBool)
}

func integer(at *int, lo, hi int) value {
	allowed := fmt.Sprintf("integer from %d to %d", lo, hi)
	if lo == hi {
		allowed = strconv.Itoa(lo)
	}
	return field(at, allowed, func(s string) (int, error) {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < lo || n > hi {
			return 0, errBad
		}
		return n, nil
	}, strconv.Itoa)
}

func formatReal(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func parseReal(s string, lo, hi float64) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(f >= lo && f <= hi) { // false for NaN, too
		return 0, errBad
	}
	return f, nil
}

func real(at *float64, lo, hi float64) value {
	return field(at, fmt.Sprintf("number from %g to %g", lo, hi), func(s string) (float64, error) { return parseReal(s, lo, hi) }, formatReal)
}

func size(at *Size, lo Size) value {
	const units = "k, m, g, KiB, MiB, GiB are powers of 1024 and kB, MB, GB powers of 1000"
	return field(at, fmt.Sprintf("size of at least %s, such as \"512 m\" (%s)", lo, units), func(s string) (Size, error) {
		n, err := parseSize(s)
		if err != nil || n < lo {
			return 0, errBad
		}
		return n, nil
	}, Size.String)
}

func duration(at *time.Duration) value {
	return field(at, `duration such as "100 ms", "10 minutes", "5m", "1 d", or Inf`, parseDuration, formatDuration)
}

// secretBytes returns the value of a key of n bytes.
func secretBytes(at *[]byte, n int) value {
	return withOwnDescription(field(at, fmt.Sprintf("base64 of %d bytes", n), func(s string) ([]byte, error) {
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
		if err != nil || len(b) != n {
			return nil, errBad
		}
		return b, nil
	}, base64.StdEncoding.EncodeToString))
}

// elements are those of a list: of a comma-separated text, or numbered. Gaps between
// numbers close up, as they do in the original's configuration library.
func elements(given []entry) ([]string, error) {
	if len(given) == 1 && given[0].path == "" {
		return splitCommas(given[0].text), nil
	}
	texts := map[int]string{}
	for _, e := range given {
		n, err := strconv.Atoi(e.path)
		if err != nil || n < 0 {
			return nil, errBad
		}
		texts[n] = e.text
	}
	var out []string
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

func joinCommas(all []string) string { return strings.Join(all, ",") }

func list(at *[]string) value {
	return compound(at, "list: one value per numbered key, or comma-separated", elements, joinCommas)
}

// containerEnv returns the value of a list of K=V. Its text omits V, which may be a
// secret.
func containerEnv(at *[]string) value {
	v := list(at)
	v.text = func() string { return joinCommas(maskPairs(*at)) }
	return v
}

// quoted returns the value of a list that may be enclosed in blanks and single quotes:
// Ansible renders " 'a,b' ".
func quoted(at *[]string) value {
	v := list(at)
	set := v.set
	v.set = func(given []entry) error {
		if given[0].path == "" {
			given = []entry{{"", strings.Trim(given[0].text, " \t'\"")}}
		}
		return set(given)
	}
	return v
}

// shimModes returns the value of a set of shim modes.
func shimModes(at *[]string) value {
	return withOwnDescription(compound(at, "comma-separated, of managed, vmm, count and off; managed is among them", func(given []entry) ([]string, error) {
		all, err := elements(given)
		unknown := func(mode string) bool { return !slices.Contains([]string{"managed", "vmm", "count", "off"}, mode) }
		if err != nil || !slices.Contains(all, "managed") || slices.ContainsFunc(all, unknown) {
			return nil, errBad
		}
		return all, nil
	}, joinCommas))
}

// properties returns the value of a map of client properties by Kafka's names. Each
// source adds to the map. The text omits secrets.
func properties(at *map[string]string) value {
	return compound(at, "text for each name below", func(given []entry) (map[string]string, error) {
		if given[0].path == "" {
			return parsePairs(given, func(_, text string) (string, error) { return text, nil })
		}
		m := map[string]string{}
		maps.Copy(m, *at)
		for _, e := range given {
			m[strings.ReplaceAll(e.path, "-", ".")] = e.text
		}
		return m, nil
	}, func(m map[string]string) string {
		return joinPairs(m, func(name, v string) string {
			if secretName(name) {
				return mask
			}
			return v
		})
	})
}

// lists returns the value of a map of lists.
func lists(at *map[string][]string) value {
	return compound(at, "for each name below a list: numbered keys, or one text", func(given []entry) (map[string][]string, error) {
		parts := map[string][]entry{}
		m := map[string][]string{}
		for _, e := range given {
			name, index, isList := strings.Cut(e.path, ".")
			if isList {
				parts[name] = append(parts[name], entry{index, e.text})
			} else if e.text != "" {
				m[name] = []string{e.text}
			}
		}
		for name, part := range parts {
			all, err := elements(part)
			if err != nil {
				return nil, err
			}
			m[name] = all
		}
		return m, nil
	}, func(m map[string][]string) string {
		return joinPairs(m, func(option string, all []string) string {
			if slices.Contains(secretOptions, option) {
				all = maskPairs(all)
			}
			return strings.Join(all, "|")
		})
	})
}

// parsePairs parses a list of name=value.
func parsePairs[T any](given []entry, parse func(name, text string) (T, error)) (map[string]T, error) {
	all, err := elements(given)
	m := map[string]T{}
	for _, one := range all {
		name, text, ok := strings.Cut(one, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, errBad
		}
		if m[name], err = parse(name, strings.TrimSpace(text)); err != nil {
			return nil, errBad
		}
	}
	return m, err
}

// joinPairs renders a map in the order of its names.
func joinPairs[T any](m map[string]T, format func(name string, v T) string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+format(name, m[name]))
	}
	return joinCommas(parts)
}

// pairs returns the value of a map that is written as a list of name=value.
func pairs[T any](at *map[string]T, allowed string, parse func(name, text string) (T, error), format func(T) string) value {
	return withOwnDescription(compound(at, allowed,
		func(given []entry) (map[string]T, error) { return parsePairs(given, parse) },
		func(m map[string]T) string {
			return joinPairs(m, func(_ string, v T) string { return format(v) })
		}))
}

// weights returns the value of a map from flows and namespaces to weights.
func weights(at *map[string]float64) value {
	return pairs(at, "comma-separated namespace/action=weight or namespace=weight, weights above 0 and at most 1000",
		func(_, text string) (float64, error) { return parseReal(text, math.SmallestNonzeroFloat64, 1000) }, formatReal)
}

// limits returns the value of a map from functions and namespaces (or only namespaces,
// if namespaces is true) to sizes.
func limits(at *map[string]Size, namespaces bool) value {
	allowed := "comma-separated namespace/path/action=size, namespace=size or *=size, such as guest=4 GB"
	if namespaces {
		allowed = "comma-separated namespace=size or *=size, such as guest=16 GB"
	}
	return pairs(at, allowed, func(name, text string) (Size, error) {
		n, err := parseSize(text)
		if n < MiB || namespaces && strings.Contains(name, "/") {
			err = errBad
		}
		return n, err
	}, Size.String)
}
