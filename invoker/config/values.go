package config

import (
	"encoding/base64"
	"fmt"
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

// optionalReal is a number of which 0 stands for unset.
func optionalReal(at *float64, lo, hi float64) value {
	v := real(at, lo, hi)
	v.text = func() string {
		if *at == 0 {
			return ""
		}
		return formatReal(*at)
	}
	return v
}

func size(at *Size, lo int64) value {
	const units = "k, m, g, KiB, MiB, GiB are powers of 1024 and kB, MB, GB powers of 1000"
	return field(at, fmt.Sprintf("size of at least %s, such as \"512 m\" (%s)", Size(lo), units), func(s string) (Size, error) {
		n, err := ParseSize(s)
		if err != nil || int64(n) < lo {
			return 0, errBad
		}
		return n, nil
	}, Size.String)
}

func duration(at *time.Duration) value {
	return field(at, `duration such as "100 ms", "10 minutes", "5m", "1 d", or Inf`, ParseDuration, formatDuration)
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

func topic(at *string) value {
	return field(at, "topic name: at most 249 letters, digits, dots, dashes and underscores", func(s string) (string, error) {
		s = strings.TrimSpace(s)
		rest := strings.TrimLeftFunc(s, func(r rune) bool {
			return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_'
		})
		if len(s) > 249 || rest != "" {
			return "", errBad
		}
		return s, nil
	}, unchanged)
}
