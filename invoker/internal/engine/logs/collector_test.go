package logs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

var stamp = time.Date(2024, 6, 10, 6, 13, 20, 0, time.UTC)

// rawLine gives the log line of one piece of output.
func rawLine(stream, text string) []byte {
	raw := AppendLine(nil, stream, stamp.Add(250*time.Millisecond), []byte(text))
	return raw[:len(raw)-1]
}

type output struct{ stream, text string }

func out(text string) output    { return output{"stdout", text} }
func errOut(text string) output { return output{"stderr", text} }

func collect(req container.LogRequest, outputs ...output) (container.LogResult, *Collector) {
	c := newCollector(req)
	for _, o := range outputs {
		c.Add(rawLine(o.stream, o.text))
	}
	return c.result(stamp), c
}

const (
	prefix      = "2024-06-10T06:13:20.25Z        "
	added       = "2024-06-10T06:13:20.000000000Z stderr: "
	failedLine  = added + "There was an issue while collecting your logs. Data might be missing."
	brokenLine  = added + "The action did not initialize or run as expected. Log data might be missing."
	cutLine     = added + "Logs were truncated because the total bytes size exceeds the limit of 100 bytes."
	endOfStream = Sentinel + "\n"
)

func TestCollector(t *testing.T) {
	wait := container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20}
	read := container.LogRequest{LimitBytes: 1 << 20}
	failed := container.LogRequest{LimitBytes: 1 << 20, Failed: true}
	small := container.LogRequest{WaitForSentinel: true, LimitBytes: 100}
	smallFailed := container.LogRequest{LimitBytes: 100, Failed: true}
	ends := []output{out(endOfStream), errOut(endOfStream)}
	long := out(strings.Repeat("x", 80) + "\n")
	cases := []struct {
		name       string
		req        container.LogRequest
		outputs    []output
		want       []string
		truncated  bool
		incomplete bool
	}{
		{"nothing printed", wait, ends, nil, false, false},
		{"both streams in file order", wait, append([]output{out("a\n"), errOut("b\n"), out("c\n")}, ends...),
			[]string{prefix + "stdout: a", prefix + "stderr: b", prefix + "stdout: c"}, false, false},
		{"line ends", wait, append([]output{out("a\r\n"), out("b\f"), out("c\r"), out("\n")}, ends...),
			[]string{prefix + "stdout: a", prefix + "stdout: b", prefix + "stdout: c\r", prefix + "stdout: "}, false, false},
		{"sentinels missing", wait, []output{out("a\n"), out(endOfStream)},
			[]string{prefix + "stdout: a", failedLine}, false, true},
		{"none expected", read, []output{out("a\n")}, []string{prefix + "stdout: a"}, false, false},
		{"none expected, printed all the same", read, append([]output{out("a\n")}, ends...), []string{prefix + "stdout: a"}, false, false},
		{"failed run", failed, []output{out("a\n")}, []string{prefix + "stdout: a", brokenLine}, false, false},
		{"over the limit", small, append([]output{out("a\n"), long, out("b\n")}, ends...),
			[]string{prefix + "stdout: a", cutLine}, true, false},
		{"over the limit without end", small, []output{long}, []string{cutLine}, true, true},
		{"over the limit and failed", smallFailed, []output{long}, []string{cutLine, brokenLine}, true, false},
		{"text before the sentinel is kept", wait, []output{out("no line feed" + endOfStream), errOut(endOfStream)},
			[]string{prefix + "stdout: no line feed"}, false, false},
		{"sentinel in the middle is the user's word", wait, append([]output{out("see " + Sentinel + " there\n")}, ends...),
			[]string{prefix + "stdout: see " + Sentinel + " there"}, false, false},
		{"sentinel cut in two", wait, []output{out("text " + Sentinel[:11]), errOut("x\n"), out(Sentinel[11:] + "\n"), errOut(endOfStream)},
			[]string{prefix + "stdout: text ", prefix + "stderr: x"}, false, false},
		{"pieces of a long line", wait, append([]output{out("head XX"), out("tail\n")}, ends...),
			[]string{prefix + "stdout: head XX", prefix + "stdout: tail"}, false, false},
		{"the collector's own words, forged", wait, append([]output{errOut(failedText + "\n"), errOut(truncatedText(1<<20) + "\n")}, ends...),
			[]string{prefix + "stderr: " + failedText, prefix + "stderr: " + truncatedText(1<<20)}, false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, _ := collect(c.req, c.outputs...)
			check.EqualSlices(t, got.Lines, c.want)
			check.Equal(t, got.Truncated, c.truncated)
			check.Equal(t, got.Incomplete, c.incomplete)
		})
	}
}

func TestCollectorKeepsGoingPastABrokenLine(t *testing.T) {
	c := newCollector(container.LogRequest{LimitBytes: 1 << 20})
	c.Add(rawLine("stdout", "a\n"))
	c.Add([]byte(`{"log":"hal{"log":"b\n"}`))
	c.Add(rawLine("stdout", "c\n"))
	got := c.result(stamp)
	want := []string{prefix + "stdout: a", prefix + "stdout: c", failedLine}
	check.EqualSlices(t, got.Lines, want)
	check.That(check.Must(t), got.Incomplete, "got %+v, want %q and incomplete", got, want)
	check.That(t, !got.Truncated, "got %+v, want %q and incomplete", got, want)
}

// The limit counts the bytes of the log file: a line that fits exactly stays.
func TestCollectorLimitIsExact(t *testing.T) {
	line := rawLine("stdout", "abc\n")
	for _, c := range []struct {
		limit int64
		want  int
	}{{int64(2 * (len(line) + 1)), 2}, {int64(2*(len(line)+1)) - 1, 1}} {
		got, _ := collect(container.LogRequest{LimitBytes: c.limit}, out("abc\n"), out("abc\n"))
		lines := len(got.Lines)
		if got.Truncated {
			lines--
		}
		check.Equal(t, lines, c.want, "limit %d", c.limit)
		check.That(t, got.Truncated == (c.want == 1), "limit %d: got %d lines, truncated %v, want %d lines", c.limit, lines, got.Truncated, c.want)
	}
}

// TestCollectorTruncatesWhereOpenWhiskDoes: for 20,000 lines of a hundred letters and a
// limit of 1 MB the record has 5,803 lines and the closing line, as the original's.
func TestCollectorTruncatesWhereOpenWhiskDoes(t *testing.T) {
	c := newCollector(container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20})
	at := time.Date(2026, 11, 21, 8, 36, 10, 877656132, time.UTC)
	for i := range 20000 {
		text := fmt.Sprintf("line %d %s\n", i, strings.Repeat("y", 100))
		raw := AppendLine(nil, "stdout", at, []byte(text))
		c.Add(raw[:len(raw)-1])
	}
	got := c.result(stamp)
	t.Logf("%d lines", len(got.Lines))
	n := len(got.Lines)
	check.AtLeast(t, n, 5750)
	check.AtMost(t, n, 5850)
	check.That(t, got.Truncated, "got %d lines, truncated %v", n, got.Truncated)
}

func TestEnded(t *testing.T) {
	req := container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20}
	for _, c := range []struct {
		outputs     []output
		ended, both bool
	}{
		{nil, false, false},
		{[]output{out(endOfStream)}, false, false},
		{[]output{out(endOfStream), out(endOfStream)}, true, false},
		{[]output{out(endOfStream), errOut(endOfStream)}, true, true},
	} {
		_, got := collect(req, c.outputs...)
		check.Equal(t, got.Ended(), c.ended, "%v", c.outputs)
		check.Equal(t, got.endedOnBoth(), c.both, "%v", c.outputs)
	}
}

// TestRawLines: a caller that wants raw lines gets one JSON object for each line of the
// record. The objects have the bytes of the log. Lines that the collector cut or added
// have the same form.
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
		check.Equal(t, strings.Join(raw, "\n"), strings.Join(c.want, "\n"), "%s: raw lines", c.name)
		check.That(t, plain.Raw == nil, "%s: lines of the record are %q with raw ones, %q without; raw ones that were not asked for: %q", c.name, got.Lines, plain.Lines, plain.Raw)
		check.Equal(t, len(got.Lines), len(got.Raw), "%s: lines of the record", c.name)
		check.Equal(t, strings.Join(plain.Lines, "\n"), strings.Join(got.Lines, "\n"), "%s: lines of the record", c.name)
	}
}

// TestBrokenActionIsReportedLast: the log of a broken action ends with the line that
// reports the fault, after the line about missing logs.
func TestBrokenActionIsReportedLast(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(c *Collector)
		want    []string
	}{
		"whole": {func(*Collector) {}, []string{brokenText}},
		"lost":  {(*Collector).lose, []string{failedText, brokenText}},
		"cut": {func(c *Collector) {
			c.Add([]byte(`{"log":"` + strings.Repeat("x", 200) + `\n","stream":"stdout","time":"2026-01-02T03:04:05.6Z"}`))
		}, []string{truncatedText(100), brokenText}},
	} {
		collector := newCollector(container.LogRequest{Failed: true, LimitBytes: 100})
		c.prepare(collector)
		got := collector.result(time.Unix(0, 0)).Lines
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.HasSuffix(got[i], "stderr: "+c.want[i])
		}
		check.That(t, ok, "%s: got %q, want %q", name, got, c.want)
	}
}
