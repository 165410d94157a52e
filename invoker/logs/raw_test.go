package logs

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// Who wants the lines as the log has them gets one object for each line of the
// record: the very bytes of the log, with what the collector cut out or added
// written in the same form.
func TestRawLines(t *testing.T) {
	const at = `","time":"2024-06-10T06:13:20.25Z"}`
	const now = `","time":"2024-06-10T06:13:20.000000000Z"}`
	half := Sentinel[:10]
	for _, c := range []struct {
		name    string
		req     container.LogRequest
		outputs []output
		want    []string
	}{
		{"lines", container.LogRequest{LimitBytes: 1 << 20}, []output{out("a <b>\n"), errOut("b")},
			[]string{`{"log":"a \u003cb\u003e\n","stream":"stdout` + at, `{"log":"b","stream":"stderr` + at}},
		{"text before a sentinel", container.LogRequest{LimitBytes: 1 << 20}, []output{out("open" + endOfStream)},
			[]string{`{"log":"open","stream":"stdout` + at}},
		{"half of a sentinel", container.LogRequest{LimitBytes: 1 << 20}, []output{out("open" + half), out(Sentinel[10:] + "\n")},
			[]string{`{"log":"open","stream":"stdout` + at}},
		{"truncated, and failed", container.LogRequest{LimitBytes: 100, Failed: true}, []output{out("a\n"), out(strings.Repeat("x", 90) + "\n")},
			[]string{`{"log":"a\n","stream":"stdout` + at,
				`{"log":"` + truncatedText(100) + `","stream":"stderr` + now, `{"log":"` + brokenText + `","stream":"stderr` + now}},
		{"sentinels are missing", container.LogRequest{LimitBytes: 100, WaitForSentinel: true}, nil,
			[]string{`{"log":"` + failedText + `","stream":"stderr` + now}},
	} {
		plain, _ := collect(c.req, c.outputs...)
		c.req.Raw = true
		got, _ := collect(c.req, c.outputs...)
		var raw []string
		for _, line := range got.Raw {
			raw = append(raw, string(line))
		}
		if strings.Join(raw, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: raw lines are\n%s\nwant\n%s", c.name, strings.Join(raw, "\n"), strings.Join(c.want, "\n"))
		}
		if plain.Raw != nil || len(got.Lines) != len(got.Raw) || strings.Join(plain.Lines, "\n") != strings.Join(got.Lines, "\n") {
			t.Errorf("%s: lines of the record are %q with raw ones, %q without; raw ones that nobody asked for: %q", c.name, got.Lines, plain.Lines, plain.Raw)
		}
	}
}
