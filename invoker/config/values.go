package config

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is a field of the Config together with its text form.
type value struct {
	// set sets the field from text, and text renders it so that set would accept
	// it again.
	set  func(text string) error
	text func() string
	// allowed describes what set accepts. It is special where that does not hold
	// for all values of the type.
	allowed string
	special bool
	// setBelow, when not nil, sets the field from paths below the key, sorted:
	// list elements by number, map entries by name.
	setBelow func(below []entry) error
}

// valueOf makes the value of a field. These tags are what is allowed:
//
//	enum:"a,b"      of a text: one of these words
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
		var lo Size
		if text := tag.Get("min"); text != "" {
			must(size(&lo, 0).set(text), tag)
		}
		return size(at, lo)
	case *time.Duration:
		return duration(at)
	case *[]byte:
		n, err := strconv.Atoi(tag.Get("bytes"))
		must(err, tag)
		return secretBytes(at, n)
	case *string:
		words, limited := tag.Lookup("enum")
		switch {
		case limited:
			return choice(at, strings.Split(words, ",")...)
		case format == "topic":
			return topic(at)
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
		}
		return list(at)
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
	from, to, _ := strings.Cut(tag.Get("range"), "..")
	lo, err := strconv.ParseFloat(from, 64)
	must(err, tag)
	hi, err = strconv.ParseFloat(to, 64)
	must(err, tag)
	return lo, hi
}

// must panics on a tag that is wrong.
func must(err error, tag reflect.StructTag) {
	if err != nil {
		panic(fmt.Sprintf("%s: %v", tag, err))
	}
}

// field makes the value of a field that parse reads and format writes.
func field[T any](at *T, allowed string, parse func(string) (T, error), format func(T) string) value {
	return value{
		allowed: allowed,
		text:    func() string { return format(*at) },
		set: func(s string) error {
			v, err := parse(s)
			if err == nil {
				*at = v
			}
			return err
		},
	}
}

// own marks what a value allows as special.
func own(v value) value {
	v.special = true
	return v
}

func unchanged(s string) string { return s }

func text(at *string) value {
	return field(at, "text", func(s string) (string, error) { return strings.TrimSpace(s), nil }, unchanged)
}

// exact is text whose blanks matter.
func exact(at *string) value {
	return field(at, "text", func(s string) (string, error) { return s, nil }, unchanged)
}

// choice is one of several words, in any case.
func choice(at *string, from ...string) value {
	names := slices.Clone(from)
	for i, name := range names {
		if name == "" {
			names[i] = "(empty)"
		}
	}
	return own(field(at, strings.Join(names, " | "), func(s string) (string, error) {
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

func real(at *float64, lo, hi float64) value {
	return field(at, fmt.Sprintf("number from %g to %g", lo, hi), func(s string) (float64, error) {
		f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || !(f >= lo && f <= hi) { // NaN is in no range
			return 0, errBad
		}
		return f, nil
	}, formatReal)
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

// secretBytes is a key of n bytes.
func secretBytes(at *[]byte, n int) value {
	return own(field(at, fmt.Sprintf("base64 of %d bytes", n), func(s string) ([]byte, error) {
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
		if err != nil || len(b) != n {
			return nil, errBad
		}
		return b, nil
	}, base64.StdEncoding.EncodeToString))
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{0,249}$`)

func topic(at *string) value {
	return field(at, "topic name: at most 249 letters, digits, dots, dashes and underscores", func(s string) (string, error) {
		if s = strings.TrimSpace(s); !topicName.MatchString(s) {
			return "", errBad
		}
		return s, nil
	}, unchanged)
}
