package config

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1024": 1024, "1024 m": GiB, "2048m": 2 * GiB, "1 k": KiB, "1K": KiB, "1kB": 1000, "1 MB": 1e6, "1 GB": 1e9,
		"1 MiB": MiB, "1Mi": MiB, "1.5 g": 3 * GiB / 2, "1 gibibyte": GiB, "2 megabytes": 2e6, "7 bytes": 7, " 5 B ": 5, "1t": 1 << 40,
	} {
		got, err := parseSize(text)
		check.ErrorIs(t, err, nil, "%q", text)
		check.Equal(t, got, want, "%q", text)
	}
	for _, text := range []string{"", "m", "1 KB", "1 mb", "-1 m", "1 m x", "1e3", "0x10", "NaN", "Inf", "99999999 t", ". m", "1..2 m", "１ m"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10 minutes": 10 * time.Minute, "10 minute": 10 * time.Minute, "100 ms": 100 * time.Millisecond, "5m": 5 * time.Minute,
		"1 d": 24 * time.Hour, "1.5 s": 1500 * time.Millisecond, "0": 0, "0 s": 0, "Inf": Forever, "inf": Forever, " 3  hours ": 3 * time.Hour,
		"7 µs": 7 * time.Microsecond, "7us": 7 * time.Microsecond, "9 nanos": 9,
	} {
		got, err := parseDuration(text)
		check.ErrorIs(t, err, nil, "%q", text)
		check.Equal(t, got, want, "%q", text)
	}
	for _, text := range []string{"", "10", "ten", "-1 s", "1 fortnight", "1 M", "1 s 2 ms", "300000 d", "1 Inf", "NaN s"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"1024 m", "1.5 GiB", "10 minutes", "Inf", "5m", "0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseSize(s); err == nil {
			back, err := parseSize(n.String())
			check.NoError(t, err, "%q is %d is %q", s, n, n)
			check.Equal(t, back, n, "%q", s)
			check.AtLeast(t, n, 0, "%q", s)
		}
		if d, err := parseDuration(s); err == nil {
			back, err := parseDuration(formatDuration(d))
			check.NoError(t, err, "%q is %d is %q", s, d, formatDuration(d))
			check.Equal(t, back, d, "%q", s)
			check.AtLeast(t, d, 0, "%q", s)
		}
	})
}
