package logs

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestParseLine(t *testing.T) {
	cases := []struct {
		name, raw string
		want      Line
	}{
		{"plain", `{"log":"hi\n","stream":"stdout","time":"2024-06-10T06:13:20.25Z"}`, Line{"hi\n", "stdout", "2024-06-10T06:13:20.25Z"}},
		{"no end of line", `{"log":"hi","stream":"stderr","time":"t"}`, Line{"hi", "stderr", "t"}},
		{"escapes", `{"log":"a\"b\\c\td\u003ce\u0001\/\r\n","stream":"stdout","time":"t"}`, Line{"a\"b\\c\td<e\x01/\r\n", "stdout", "t"}},
		{"wide", `{"log":"h\u00e9 \ud83d\ude00 é\n","stream":"stdout","time":"t"}`, Line{"hé 😀 é\n", "stdout", "t"}},
		{"lone surrogate", `{"log":"\ud83d\n","stream":"stdout","time":"t"}`, Line{"\ufffd\n", "stdout", "t"}},
		{"other keys", `{"log":"x\n","attrs":{"tag":"y"},"stream":"stdout","time":"t"}`, Line{"x\n", "stdout", "t"}},
		{"other order", `{"time":"t","stream":"stdout","log":"x\n"}`, Line{"x\n", "stdout", "t"}},
		{"no text", `{"stream":"stdout","time":"t"}`, Line{"", "stdout", "t"}},
		{"other stream", `{"log":"x","stream":"console","time":"t"}`, Line{"x", "console", "t"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseLine([]byte(c.raw))
			check.NoError(t, err)
			check.Equal(t, got, c.want)
		})
	}
}

func TestParseLineRefuses(t *testing.T) {
	for _, raw := range []string{
		``, `{`, `null`, `"text"`, `{"log":"x"}`, `{"log":"x","stream":"stdout"}`,
		`{"log":"x","stream":"stdout","time":"t"`, `{"log":"x","stream":"stdout","time":"t"}}`,
		"{\"log\":\"a\x01\",\"stream\":\"stdout\",\"time\":\"t\"}",
		`{"log":1,"stream":"stdout","time":"t"}`, `{"log":"\q","stream":"stdout","time":"t"}`,
		`{"log":"\u00","stream":"stdout","time":"t"}`,
		`{"log":"half{"log":"x","stream":"stdout","time":"t"}`,
	} {
		line, err := parseLine([]byte(raw))
		check.That(t, err != nil, "%s: got %q, want an error", raw, line)
	}
}

func TestAppendLineIsDockers(t *testing.T) {
	at := time.Date(2024, 6, 10, 8, 13, 20, 250e6, time.FixedZone("", 7200))
	cases := []struct{ text, want string }{
		{"hi\n", `{"log":"hi\n","stream":"stdout","time":"2024-06-10T06:13:20.25Z"}`},
		{"", `{"stream":"stdout","time":"2024-06-10T06:13:20.25Z"}`},
		{"<a&b>\t\"\\\r\x00é\u2028\xff\n", `{"log":"\u003ca\u0026b\u003e\t\"\\\r\u0000é\u2028\ufffd\n","stream":"stdout","time":"2024-06-10T06:13:20.25Z"}`},
	}
	for _, c := range cases {
		got := string(AppendLine(nil, "stdout", at, []byte(c.text)))
		check.Equal(t, got, c.want+"\n", "%q: got %s, want %s", c.text, got, c.want)
	}
}

func FuzzAppendLine(f *testing.F) {
	f.Add([]byte("hi\n"))
	f.Add([]byte("<&>\u2028\xff\xc3\x28\x00\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		raw := AppendLine(nil, "stderr", time.Unix(0, 0), text)
		check.Equal(check.Must(t), strings.Count(string(raw), "\n"), 1, "more than one line")
		got, err := parseLine(raw[:len(raw)-1])
		want := Line{eachInvalidByte(text), "stderr", "1970-01-01T00:00:00Z"}
		check.NoError(t, err, "%q: got %q, want %q", text, got, want)
		check.Equal(check.Must(t), got, want, "%q", text)
	})
}

// eachInvalidByte puts one U+FFFD for every byte that is not UTF-8.
func eachInvalidByte(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		b.WriteRune(r)
	}
	return b.String()
}

func BenchmarkParseLine(b *testing.B) {
	raw := AppendLine(nil, "stdout", time.Unix(1718000000, 25), []byte(strings.Repeat("y", 100)+"\n"))
	raw = raw[:len(raw)-1]
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := parseLine(raw)
		check.NoError(b, err)
	}
}
