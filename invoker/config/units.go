package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// errBad is the inner error of every value that its key does not allow; the
// caller adds key, value and what is allowed.
var errBad = errors.New("value not allowed")

// sizeUnits are the units of HOCON. One letter and the "i" forms are powers of
// 1024, the others powers of 1000; messages and manifests count otherwise.
var sizeUnits = map[string]float64{
	"": 1, "b": 1, "B": 1, "byte": 1, "bytes": 1,
	"kB": 1e3, "kilobyte": 1e3, "kilobytes": 1e3,
	"MB": 1e6, "megabyte": 1e6, "megabytes": 1e6,
	"GB": 1e9, "gigabyte": 1e9, "gigabytes": 1e9,
	"TB": 1e12, "terabyte": 1e12, "terabytes": 1e12,
	"k": 1 << 10, "K": 1 << 10, "Ki": 1 << 10, "KiB": 1 << 10, "kibibyte": 1 << 10, "kibibytes": 1 << 10,
	"m": 1 << 20, "M": 1 << 20, "Mi": 1 << 20, "MiB": 1 << 20, "mebibyte": 1 << 20, "mebibytes": 1 << 20,
	"g": 1 << 30, "G": 1 << 30, "Gi": 1 << 30, "GiB": 1 << 30, "gibibyte": 1 << 30, "gibibytes": 1 << 30,
	"t": 1 << 40, "T": 1 << 40, "Ti": 1 << 40, "TiB": 1 << 40, "tebibyte": 1 << 40, "tebibytes": 1 << 40,
}

// parseSize reads a size as HOCON writes it: "1024 m", "2GB", "1.5 GiB", or a
// bare number of bytes.
func parseSize(s string) (Size, error) {
	number, unit := splitUnit(s)
	factor, ok := sizeUnits[unit]
	n, err := strconv.ParseFloat(number, 64)
	// 1<<53 bytes is where a float stops counting single bytes.
	if bytes := n * factor; ok && err == nil && bytes >= 0 && bytes <= 1<<53 {
		return Size(math.Floor(bytes)), nil
	}
	return 0, errBad
}

// String renders the size in the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range []struct {
		name string
		size Size
	}{{" GiB", GiB}, {" MiB", MiB}, {" KiB", KiB}} {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + " B"
}

// durationUnits are the units that Scala's Duration reads.
var durationUnits = map[string]time.Duration{
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"ms": time.Millisecond, "milli": time.Millisecond, "millis": time.Millisecond,
	"millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"us": time.Microsecond, "µs": time.Microsecond, "micro": time.Microsecond, "micros": time.Microsecond,
	"microsecond": time.Microsecond, "microseconds": time.Microsecond,
	"ns": 1, "nano": 1, "nanos": 1, "nanosecond": 1, "nanoseconds": 1,
}

// parseDuration reads a duration as OpenWhisk's configuration writes it:
// "10 minutes", "100 ms", "5m", "1 d", "Inf". A number other than 0 needs a
// unit, and none is negative.
func parseDuration(s string) (time.Duration, error) {
	number, unit := splitUnit(s)
	if strings.EqualFold(unit, "Inf") && number == "" {
		return Forever, nil
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0) {
		return 0, errBad
	}
	if n == 0 && unit == "" {
		return 0, nil
	}
	factor, ok := durationUnits[unit]
	if d := n * float64(factor); ok && d < float64(Forever) {
		return time.Duration(math.Round(d)), nil
	}
	return 0, errBad
}

// formatDuration renders d in the largest unit that divides it.
func formatDuration(d time.Duration) string {
	if d == Forever {
		return "Inf"
	}
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{" d", 24 * time.Hour}, {" h", time.Hour}, {" minutes", time.Minute}, {" seconds", time.Second},
		{" ms", time.Millisecond}, {" us", time.Microsecond}} {
		if d != 0 && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	if d == 0 {
		return "0 seconds"
	}
	return strconv.FormatInt(int64(d), 10) + " ns"
}

// splitUnit cuts text into a plain decimal number and the unit behind it.
func splitUnit(s string) (number, unit string) {
	s = strings.TrimSpace(s)
	i := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeftFunc(s[i:], unicode.IsSpace)
}
