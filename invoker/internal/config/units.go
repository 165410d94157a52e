package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errBad is the inner error for a value that its key does not allow. The caller adds the
// key, the value and the allowed values.
var errBad = errors.New("value not allowed")

// sizeUnits are the units of HOCON. One letter and the "i" forms are powers of 1024, the
// others powers of 1000. The limits in messages and manifests use a different notation.
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

// parseSize parses a size in HOCON's notation: "1024 m", "2GB", "1.5 GiB", or a bare
// number of bytes.
func parseSize(s string) (Size, error) {
	bytes, err := quantity(s, sizeUnits)
	if err != nil || bytes > 1<<53 { // above 1<<53 a float64 cannot count single bytes
		return 0, errBad
	}
	return Size(bytes), nil
}

// String renders the size in the largest binary unit that divides it.
func (s Size) String() string {
	return rendered(int64(s), []unit{{"GiB", int64(GiB)}, {"MiB", int64(MiB)}, {"KiB", int64(KiB)}, {"B", 1}})
}

// durationUnits maps the units of Scala's Duration to nanoseconds.
var durationUnits = map[string]float64{
	"d": 86400e9, "day": 86400e9, "days": 86400e9,
	"h": 3600e9, "hr": 3600e9, "hrs": 3600e9, "hour": 3600e9, "hours": 3600e9,
	"m": 60e9, "min": 60e9, "mins": 60e9, "minute": 60e9, "minutes": 60e9,
	"s": 1e9, "sec": 1e9, "secs": 1e9, "second": 1e9, "seconds": 1e9,
	"ms": 1e6, "milli": 1e6, "millis": 1e6, "millisecond": 1e6, "milliseconds": 1e6,
	"us": 1e3, "µs": 1e3, "micro": 1e3, "micros": 1e3, "microsecond": 1e3, "microseconds": 1e3,
	"ns": 1, "nano": 1, "nanos": 1, "nanosecond": 1, "nanoseconds": 1,
}

// parseDuration parses a duration in OpenWhisk's notation: "10 minutes", "100 ms", "5m",
// "1 d", "Inf". A number other than 0 needs a unit. Negative durations are refused.
func parseDuration(s string) (time.Duration, error) {
	switch s = strings.TrimSpace(s); {
	case strings.EqualFold(s, "Inf"):
		return Forever, nil
	case s == "0":
		return 0, nil
	}
	d, err := quantity(s, durationUnits)
	if err != nil || d >= float64(Forever) {
		return 0, errBad
	}
	return time.Duration(math.Round(d)), nil
}

// formatDuration renders d in the largest unit that divides it.
func formatDuration(d time.Duration) string {
	switch d {
	case Forever:
		return "Inf"
	case 0:
		return "0 seconds"
	}
	return rendered(int64(d), []unit{{"d", int64(24 * time.Hour)}, {"h", int64(time.Hour)}, {"minutes", int64(time.Minute)},
		{"seconds", int64(time.Second)}, {"ms", int64(time.Millisecond)}, {"us", int64(time.Microsecond)}, {"ns", 1}})
}

// quantity parses a decimal number followed by a unit.
func quantity(s string, units map[string]float64) (float64, error) {
	s = strings.TrimSpace(s)
	unit := strings.TrimLeft(s, "0123456789.")
	n, err := strconv.ParseFloat(strings.TrimSuffix(s, unit), 64)
	factor, known := units[strings.TrimSpace(unit)]
	if err != nil || !known {
		return 0, errBad
	}
	return n * factor, nil
}

// unit is a unit and its size in the smallest unit.
type unit struct {
	name string
	size int64
}

// rendered writes a number in the first of the units that divides it.
func rendered(n int64, units []unit) string {
	i := slices.IndexFunc(units, func(u unit) bool { return n != 0 && n%u.size == 0 || u.size == 1 })
	return fmt.Sprintf("%d %s", n/units[i].size, units[i].name)
}
