package activation

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestValidName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "_": true, "A9": true, "a b": true, "a.b@c&d-e": true, "a-": true, "a@": true, "a.": true, "ab": true,
		"": false, " a": false, "a ": false, "-a": false, "@a": false, "a&": true, "a/b": false, "é": false, "a\n": false, "a$b": false,
		strings.Repeat("a", 256): true, strings.Repeat("a", 257): false,
	} {
		check.Equal(t, ValidName(name), ok, "name %q", name)
	}
}

func TestParsePath(t *testing.T) {
	for in, want := range map[string]string{
		"guest": "guest", "guest/pkg": "guest/pkg", "/guest//pkg/": "guest/pkg", "a b/c": "a b/c",
		"": "", "/": "", "guest/ pkg": "", "guest/p$": "",
	} {
		got, err := ParsePath(in)
		check.Equal(t, got, want, "path %q", in)
		check.That(t, (err == nil) == (want != ""), "path %q: %q, %v", in, got, err)
	}
}

func TestParseSemVer(t *testing.T) {
	for in, want := range map[string]string{
		"0.0.1": "0.0.1", "1": "1.0.0", "1.2": "1.2.0", "1.2.3": "1.2.3", "1.2.3.4": "1.2.3", "1.": "1.0.0", "01.2.3": "1.2.3",
		"": "", "0.0.0": "", "a.b.c": "", "-1.0.0": "", "1..2": "", "99999999999.0.0": "",
	} {
		v, err := ParseSemVer(in)
		if err != nil && want == "" {
			continue
		}
		check.NoError(t, err, "version %q: %v, want %q", in, v, want)
		check.Equal(t, v.String(), want, "version %q", in)
	}
	check.Equal(t, (SemVer{1, 2, 3}).Next().String(), "1.2.4")
}

func TestParseID(t *testing.T) {
	good := strings.Repeat("0a", 16)
	id, err := ParseID(good)
	check.NoError(t, err, "%v", id)
	check.Equal(t, string(id), good)
	for _, bad := range []string{"", good + "0", good[1:], strings.ToUpper(good), strings.Repeat("0g", 16)} {
		_, err := ParseID(bad)
		check.That(t, err != nil, "took %q", bad)
	}
}

func TestValidControllerID(t *testing.T) {
	for id, ok := range map[string]bool{"0": true, "a.b-c_D": true, "": false, "a/b": false, strings.Repeat("a", 129): false} {
		check.Equal(t, validControllerID(id), ok, "controller id %q", id)
	}
}

func TestUTF16Length(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "é": 1, "€": 1, "😀": 2, "a\xffb": 3} {
		check.Equal(t, UTF16Length(s), want, "%q", s)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]Size{
		"256 MB": 256 * MB, "256MB": 256 * MB, " 1 g ": GB, "1k": KB, "1 Kb": KB, "0 B": 0, "2147483648 B": 2 * GB, "1\tGB\n": GB,
	} {
		got, err := ParseSize(in)
		check.NoError(t, err, "%q: %d", in, got)
		check.Equal(t, got, want, "%q", in)
	}
	for _, bad := range []string{"", "MB", "1", "1 TB", "-1 B", "1.5 MB", "  1 B", "1  B", "1 B  ", "9223372036854775807 KB", "99999999999999999999 B"} {
		got, err := ParseSize(bad)
		check.That(t, err != nil, "took %q as %d", bad, got)
	}
	for size, want := range map[Size]string{0: "0 B", 1023: "1023 B", KB: "1 KB", 1536 * MB: "1536 MB", 2 * GB: "2 GB"} {
		check.Equal(t, size.String(), want, "%d: %s", int64(size), size)
	}
	check.Equal(t, (2 * GB).Bytes(), "2147483648 B")
}
