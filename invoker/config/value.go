package config

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is a place in the Config together with its text form.
type value interface {
	// set fills the place from text.
	set(text string) error
	// String renders the place so that set would accept it again.
	String() string
	// allowed says in words what set accepts.
	allowed() string
}

type textValue struct{ at *string }

func text(at *string) value            { return textValue{at} }
func (v textValue) set(s string) error { *v.at = strings.TrimSpace(s); return nil }
func (v textValue) String() string     { return *v.at }
func (v textValue) allowed() string    { return "text" }

// exactValue is text whose blanks matter.
type exactValue struct{ at *string }

func exact(at *string) value            { return exactValue{at} }
func (v exactValue) set(s string) error { *v.at = s; return nil }
func (v exactValue) String() string     { return *v.at }
func (v exactValue) allowed() string    { return "text" }

type choiceValue struct {
	at   *string
	from []string
}

func choice(at *string, from ...string) value { return choiceValue{at, from} }
func (v choiceValue) String() string          { return *v.at }

func (v choiceValue) set(s string) error {
	i := slices.IndexFunc(v.from, func(one string) bool { return strings.EqualFold(one, strings.TrimSpace(s)) })
	if i < 0 {
		return errBad
	}
	*v.at = v.from[i]
	return nil
}

func (v choiceValue) allowed() string {
	shown := make([]string, len(v.from))
	for i, one := range v.from {
		if shown[i] = one; one == "" {
			shown[i] = "(empty)"
		}
	}
	return strings.Join(shown, " | ")
}

type boolValue struct{ at *bool }

func boolean(at *bool) value        { return boolValue{at} }
func (v boolValue) String() string  { return strconv.FormatBool(*v.at) }
func (v boolValue) allowed() string { return "true | false" }

func (v boolValue) set(s string) error {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "yes", "on":
		*v.at = true
	case "false", "no", "off":
		*v.at = false
	default:
		return errBad
	}
	return nil
}

type intValue struct {
	at     *int
	lo, hi int
}

func integer(at *int, lo, hi int) value { return intValue{at, lo, hi} }
func (v intValue) String() string       { return strconv.Itoa(*v.at) }

func (v intValue) set(s string) error {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < v.lo || n > v.hi {
		return errBad
	}
	*v.at = n
	return nil
}

func (v intValue) allowed() string {
	if v.lo == v.hi {
		return strconv.Itoa(v.lo)
	}
	return fmt.Sprintf("integer from %d to %d", v.lo, v.hi)
}

type realValue struct {
	at       *float64
	lo, hi   float64
	optional bool // 0 stands for unset
}

func real(at *float64, lo, hi float64) value         { return realValue{at, lo, hi, false} }
func optionalReal(at *float64, lo, hi float64) value { return realValue{at, lo, hi, true} }

func (v realValue) String() string {
	if v.optional && *v.at == 0 {
		return ""
	}
	return strconv.FormatFloat(*v.at, 'g', -1, 64)
}

func (v realValue) set(s string) error {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(f >= v.lo && f <= v.hi) { // NaN is in no range
		return errBad
	}
	*v.at = f
	return nil
}

func (v realValue) allowed() string { return fmt.Sprintf("number from %g to %g", v.lo, v.hi) }

type sizeValue struct {
	at *Size
	lo int64
}

func size(at *Size, lo int64) value { return sizeValue{at, lo} }
func (v sizeValue) String() string  { return v.at.String() }

func (v sizeValue) set(s string) error {
	n, err := ParseSize(s)
	if err != nil || int64(n) < v.lo {
		return errBad
	}
	*v.at = n
	return nil
}

func (v sizeValue) allowed() string {
	const units = "k, m, g, KiB, MiB, GiB are powers of 1024 and kB, MB, GB powers of 1000"
	return fmt.Sprintf("size of at least %s, such as \"512 m\" (%s)", Size(v.lo), units)
}

type durationValue struct{ at *time.Duration }

func duration(at *time.Duration) value { return durationValue{at} }
func (v durationValue) String() string { return formatDuration(*v.at) }
func (v durationValue) allowed() string {
	return `duration such as "100 ms", "10 minutes", "5m", "1 d", or Inf`
}

func (v durationValue) set(s string) error {
	d, err := ParseDuration(s)
	if err != nil {
		return errBad
	}
	*v.at = d
	return nil
}

// secretValue is a key of a fixed length.
type secretValue struct {
	at  *[]byte
	len int
}

func secretBytes(at *[]byte, n int) value { return secretValue{at, n} }
func (v secretValue) String() string      { return base64.StdEncoding.EncodeToString(*v.at) }
func (v secretValue) allowed() string     { return fmt.Sprintf("base64 of %d bytes", v.len) }

func (v secretValue) set(s string) error {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	if err != nil || len(b) != v.len {
		return errBad
	}
	*v.at = b
	return nil
}

type topicValue struct{ at *string }

func topic(at *string) value        { return topicValue{at} }
func (v topicValue) String() string { return *v.at }
func (v topicValue) allowed() string {
	return "topic name: at most 249 letters, digits, dots, dashes and underscores"
}

func (v topicValue) set(s string) error {
	s = strings.TrimSpace(s)
	rest := strings.TrimLeftFunc(s, func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_'
	})
	if len(s) > 249 || rest != "" {
		return errBad
	}
	*v.at = s
	return nil
}

// optionalValue is a place that stays nil until it is set.
type optionalValue[T any] struct {
	at *(*T)
	of func(*T) value
}

func optional[T any](at *(*T), of func(*T) value) value { return optionalValue[T]{at, of} }
func (v optionalValue[T]) allowed() string              { return v.of(new(T)).allowed() }

func (v optionalValue[T]) set(s string) error {
	one := new(T)
	if err := v.of(one).set(s); err != nil {
		return err
	}
	*v.at = one
	return nil
}

func (v optionalValue[T]) String() string {
	if *v.at == nil {
		return ""
	}
	return v.of(*v.at).String()
}
