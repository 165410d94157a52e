package activation

import (
	"strings"
	"testing"
)

func TestValidName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "_": true, "A9": true, "a b": true, "a.b@c&d-e": true, "a-": true, "a@": true, "a.": true, "ab": true,
		"": false, " a": false, "a ": false, "-a": false, "@a": false, "a&": true, "a/b": false, "é": false, "a\n": false, "a$b": false,
		strings.Repeat("a", 256): true, strings.Repeat("a", 257): false,
	} {
		if ValidName(name) != ok {
			t.Errorf("name %q: want %v", name, ok)
		}
	}
}

func TestParsePath(t *testing.T) {
	for in, want := range map[string]string{
		"guest": "guest", "guest/pkg": "guest/pkg", "/guest//pkg/": "guest/pkg", "a b/c": "a b/c",
		"": "", "/": "", "guest/ pkg": "", "guest/p$": "",
	} {
		got, err := ParsePath(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("path %q: %q, %v", in, got, err)
		}
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
		if err != nil || v.String() != want {
			t.Errorf("version %q: %v, %v, want %q", in, v, err, want)
		}
	}
	if next := (SemVer{1, 2, 3}).Next(); next.String() != "1.2.4" {
		t.Errorf("next %v", next)
	}
}

func TestParseID(t *testing.T) {
	good := strings.Repeat("0a", 16)
	if id, err := ParseID(good); err != nil || string(id) != good {
		t.Errorf("%v, %v", id, err)
	}
	for _, bad := range []string{"", good + "0", good[1:], strings.ToUpper(good), strings.Repeat("0g", 16)} {
		if _, err := ParseID(bad); err == nil {
			t.Errorf("took %q", bad)
		}
	}
}

func TestValidControllerID(t *testing.T) {
	for id, ok := range map[string]bool{"0": true, "a.b-c_D": true, "": false, "a/b": false, strings.Repeat("a", 129): false} {
		if ValidControllerID(id) != ok {
			t.Errorf("controller id %q: want %v", id, ok)
		}
	}
}

func TestUTF16Length(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "é": 1, "€": 1, "😀": 2, "a\xffb": 3} {
		if got := UTF16Length(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]Size{
		"256 MB": 256 * MB, "256MB": 256 * MB, " 1 g ": GB, "1k": KB, "1 Kb": KB, "0 B": 0, "2147483648 B": 2 * GB, "1\tGB\n": GB,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "MB", "1", "1 TB", "-1 B", "1.5 MB", "  1 B", "1  B", "1 B  ", "9223372036854775807 KB", "99999999999999999999 B"} {
		if got, err := ParseSize(bad); err == nil {
			t.Errorf("took %q as %d", bad, got)
		}
	}
	for size, want := range map[Size]string{0: "0 B", 1023: "1023 B", KB: "1 KB", 1536 * MB: "1536 MB", 2 * GB: "2 GB"} {
		if size.String() != want {
			t.Errorf("%d: %s, want %s", int64(size), size, want)
		}
	}
	if got := (2 * GB).Bytes(); got != "2147483648 B" {
		t.Errorf("bytes %s", got)
	}
}
