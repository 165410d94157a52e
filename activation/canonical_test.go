package activation

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestNumbers: numbers are printed as java.math.BigDecimal prints them.
func TestNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0.0", "-0.0": "0.0", "-0.00": "0.00", "1": "1", "-1": "-1", "10": "10", "100": "100",
		"1.0": "1.0", "1.50": "1.50", "-1.5": "-1.5", "1e3": "1E+3", "1E3": "1E+3", "1e+3": "1E+3", "12e3": "1.2E+4", "1.2e3": "1.2E+3",
		"1.25e1": "12.5", "1.25e2": "125", "1e0": "1", "1e-1": "0.1", "1e-6": "0.000001", "1e-7": "1E-7", "12e-8": "1.2E-7",
		"0.0000001": "1E-7", "0.000001": "0.000001", "0.1e-2": "0.001", "1e400": "1E+400", "1e10": "1E+10", "0e5": "0E+5", "0e-8": "0E-8",
		"0.0000000": "0E-7", "-12.5e-20": "-1.25E-19", "12345678901234567890.123456789": "12345678901234567890.123456789",
		"1e2147483647": "1E+2147483647",
	} {
		got, err := Canonical([]byte(in))
		check.NoError(t, err, "%s: %s, want %s", in, got, want)
		check.Equal(t, string(got), want, "%s", in)
	}
	for _, bad := range []string{"01", "1.", ".5", "+1", "1e", "1e+", "-", "0x1", "NaN", "1e99999999999", "1e3000000000", strings.Repeat("1", 101)} {
		got, err := Canonical([]byte(bad))
		check.That(t, err != nil, "took %s as %s", bad, got)
	}
	_, err := Canonical([]byte(strings.Repeat("1", 100)))
	check.NoError(t, err, "100 digits")
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{" { \"b\" : 1 , \"a\" : [ true , null , \"x\" ] } ", `{"a":[true,null,"x"],"b":1}`},
		{`{"b":1,"a":2,"b":3}`, `{"a":2,"b":3}`},
		{`{"a":1,"a":2}`, `{"a":2}`},
		{`{"b":{"d":1,"c":2},"a":{}}`, `{"a":{},"b":{"c":2,"d":1}}`},
		{`"\u0041\/\n\u0001\u001f\u007f<&>"`, `"A/\n\u0001\u001f` + "\x7f" + `<&>"`},
		{`"\ud83d\ude00"`, `"😀"`},
		{`"\ud83d"`, `"?"`}, {`"\ude00x"`, `"?x"`}, {`"\ud83d\u0041"`, `"?A"`},
		{"\"\u2028\"", "\"\u2028\""},
		{"\"a\xffb\"", "\"a\uFFFDb\""},
		// UTF-16 order: a surrogate sorts below U+FFFD.
		{"{\"\uFFFD\":1,\"😀\":2,\"z\":3}", "{\"z\":3,\"😀\":2,\"\uFFFD\":1}"},
		{"[]", "[]"}, {"{}", "{}"}, {" [ ] ", "[]"}, {`""`, `""`},
	} {
		got, err := Canonical([]byte(c.in))
		check.NoError(t, err, "%q: %q, want %q", c.in, got, c.want)
		check.Equal(t, string(got), c.want, "%q", c.in)
	}
}

func TestParserRefuses(t *testing.T) {
	for _, bad := range []string{
		"", " ", "{", "[", `"`, `{"a"}`, `{"a":}`, `{"a":1,}`, "[1,]", "[1 2]", `{"a":1 "b":2}`, `{a:1}`, "{1:2}", "tru", "nul", "truex", "1 2",
		"\"a\nb\"", "\"\x00\"", `"\x41"`, `"\u12"`, `"\u12g4"`, `"\`, "\uFEFF1", "//", "'a'", "]", "}", ",",
	} {
		got, err := Canonical([]byte(bad))
		check.That(t, err != nil, "took %q as %q", bad, got)
	}
}

// TestCanonicalOfAnyNesting prints random documents both in disorder, with keys
// that come twice, and in order.
func TestCanonicalOfAnyNesting(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		in, want := disorder(r, 6)
		got, err := Canonical([]byte(in))
		check.NoError(t, err, "seed %d: %s\n got %s\nwant %s", seed, in, got, want)
		check.Equal(check.Must(t), string(got), want, "seed %d: %s", seed, in)
	}
}

// disorder gives a random value as some program may print it, and as it is
// printed in order.
func disorder(r *rand.Rand, depth int) (in, want string) {
	switch kind := r.IntN(4); {
	case depth == 0 || kind == 0:
		n := fmt.Sprint(r.IntN(100))
		return n, n
	case kind == 1:
		var ins, wants []string
		for range r.IntN(4) {
			i, w := disorder(r, depth-1)
			ins, wants = append(ins, i), append(wants, w)
		}
		return "[" + strings.Join(ins, " , ") + "]", "[" + strings.Join(wants, ",") + "]"
	}
	last := map[string]string{}
	var ins, wants []string
	for range r.IntN(6) {
		key := string(rune('a' + r.IntN(5)))
		i, w := disorder(r, depth-1)
		ins, last[key] = append(ins, fmt.Sprintf("%q: %s", key, i)), w
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		wants = append(wants, fmt.Sprintf("%q:%s", key, last[key]))
	}
	return "{" + strings.Join(ins, ",") + "}", "{" + strings.Join(wants, ",") + "}"
}

// TestDeepIsLinear: the memory for a document does not grow with the product of its
// size and its depth.
func TestDeepIsLinear(t *testing.T) {
	data := deep(990, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Canonical(data)
	check.NoError(t, err)
	runtime.ReadMemStats(&after)
	check.AtMost(t, after.TotalAlloc-before.TotalAlloc, uint64(16*len(data)), "%d bytes allocated for %d", after.TotalAlloc-before.TotalAlloc, len(data))
}

// TestErrorOfADeepDocumentIsShort: an error does not contain names from the document.
func TestErrorOfADeepDocumentIsShort(t *testing.T) {
	_, err := Canonical([]byte(strings.Repeat(`{"key":`, 900) + "?"))
	check.That(check.Must(t), err != nil, "error %v", err)
	check.Equal(t, err.Error(), "parse json: offset 6300: want a value")
}

// TestDepth: a value may lie below 999 others, which is the original's bound.
func TestDepth(t *testing.T) {
	nest := func(open, middle, closing string, n int) []byte {
		return []byte(strings.Repeat(open, n) + middle + strings.Repeat(closing, n))
	}
	for _, c := range []struct {
		name string
		in   []byte
		ok   bool
	}{
		{"arrays", nest("[", "", "]", 1000), true},
		{"too many arrays", nest("[", "", "]", 1001), false},
		{"a number in arrays", nest("[", "1", "]", 999), true},
		{"a number too deep", nest("[", "1", "]", 1000), false},
		{"objects", nest(`{"a":`, "1", "}", 999), true},
		{"too many objects", nest(`{"a":`, "1", "}", 1000), false},
	} {
		_, err := Canonical(c.in)
		p := newParser(c.in)
		p.skip()
		check.That(t, (err == nil) == c.ok, "%s: %v, %v", c.name, err, p.err)
		check.That(t, (p.end() == nil) == c.ok, "%s: %v, %v", c.name, err, p.err)
	}
	_, err := Canonical([]byte(strings.Repeat("[", 1<<20)))
	check.That(t, err != nil, "took a tower of brackets")
}

func TestQuoteHuge(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1E+400,"b":[1E+3,-1E+309],"c":"1E+400"}`: `{"a":"1E+400","b":[1E+3,"-1E+309"],"c":"1E+400"}`,
		`{"a":1E-400}`: `{"a":1E-400}`,
		`1E+400`:       `"1E+400"`,
		`{"e":1}`:      `{"e":1}`,
	} {
		check.Equal(t, string(quoteHuge(json.RawMessage(in))), want, "%s", in)
	}
}

// TestAppendStringAnywhere: a byte is written alike wherever it stands.
func TestAppendStringAnywhere(t *testing.T) {
	for at := range 24 {
		for c := range 256 {
			in := []byte("abcdefghijklmnopqrstuvwx")
			in[at] = byte(c)
			want := []byte{'"'}
			for _, one := range in {
				alone := AppendString(nil, string([]byte{one}))
				want = append(want, alone[1:len(alone)-1]...)
			}
			want = append(want, '"')
			check.EqualSlices(t, AppendString(nil, string(in)), want, "byte %#x at %d", c, at)
		}
	}
}

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"a\"\\/\b\f\n\r\t\x00\x1f\x7f<>&é😀\u2028": `"a\"\\/\b\f\n\r\t\u0000\u001f` + "\x7f<>&é😀\u2028\"",
		"\xff\xfea\xf0\x9f":                       "\"\uFFFD\uFFFDa\uFFFD\uFFFD\"",
		"":                                        `""`,
	} {
		check.Equal(t, string(AppendString(nil, in)), want, "%q", in)
	}
}

func TestIntegers(t *testing.T) {
	for in, want := range map[string]int64{"5": 5, "-5": -5, "5.9": 5, "-5.9": -5, "1e3": 1000, "0.1": 0, "1.5e1": 15, "9223372036854775807": 9223372036854775807, "0e999999": 0} {
		p := newParser([]byte(in))
		check.Equal(t, p.integer(), want, "%s", in)
		if in != "0e999999" {
			check.NoError(t, p.end(), "%s", in)
		}
	}
	for _, bad := range []string{"1e400", "9223372036854775808", `"5"`, "1e999999999", "true"} {
		p := newParser([]byte(bad))
		got := p.integer()
		check.That(t, p.err != nil, "took %s as %d", bad, got)
	}
	for in, ok := range map[string]bool{"5": true, "5.0": true, "5e1": true, "5.5": false, "99999999999": false} {
		p := newParser([]byte(in))
		if p.wholeInt(); (p.err == nil) != ok {
			t.Errorf("whole %s: %v", in, p.err)
		}
	}
}
