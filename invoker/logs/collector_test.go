package logs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
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
	c := NewCollector(req)
	for _, o := range outputs {
		c.Add(rawLine(o.stream, o.text))
	}
	return c.Result(stamp), c
}

const (
	shown       = "2024-06-10T06:13:20.25Z        "
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
			[]string{shown + "stdout: a", shown + "stderr: b", shown + "stdout: c"}, false, false},
		{"line ends", wait, append([]output{out("a\r\n"), out("b\f"), out("c\r"), out("\n")}, ends...),
			[]string{shown + "stdout: a", shown + "stdout: b", shown + "stdout: c\r", shown + "stdout: "}, false, false},
		{"sentinels missing", wait, []output{out("a\n"), out(endOfStream)},
			[]string{shown + "stdout: a", failedLine}, false, true},
		{"none expected", read, []output{out("a\n")}, []string{shown + "stdout: a"}, false, false},
		{"none expected, printed all the same", read, append([]output{out("a\n")}, ends...), []string{shown + "stdout: a"}, false, false},
		{"failed run", failed, []output{out("a\n")}, []string{shown + "stdout: a", brokenLine}, false, false},
		{"over the limit", small, append([]output{out("a\n"), long, out("b\n")}, ends...),
			[]string{shown + "stdout: a", cutLine}, true, false},
		{"over the limit without end", small, []output{long}, []string{cutLine}, true, true},
		{"over the limit and failed", smallFailed, []output{long}, []string{cutLine, brokenLine}, true, false},
		{"text before the sentinel is kept", wait, []output{out("no line feed" + endOfStream), errOut(endOfStream)},
			[]string{shown + "stdout: no line feed"}, false, false},
		{"sentinel in the middle is the user's word", wait, append([]output{out("see " + Sentinel + " there\n")}, ends...),
			[]string{shown + "stdout: see " + Sentinel + " there"}, false, false},
		{"sentinel cut in two", wait, []output{out("text " + Sentinel[:11]), errOut("x\n"), out(Sentinel[11:] + "\n"), errOut(endOfStream)},
			[]string{shown + "stdout: text ", shown + "stderr: x"}, false, false},
		{"pieces of a long line", wait, append([]output{out("head XX"), out("tail\n")}, ends...),
			[]string{shown + "stdout: head XX", shown + "stdout: tail"}, false, false},
		{"the collector's own words, forged", wait, append([]output{errOut(failedText + "\n"), errOut(truncatedText(1<<20) + "\n")}, ends...),
			[]string{shown + "stderr: " + failedText, shown + "stderr: " + truncatedText(1<<20)}, false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, _ := collect(c.req, c.outputs...)
			if !slices.Equal(got.Lines, c.want) {
				t.Errorf("lines\n got %q\nwant %q", got.Lines, c.want)
			}
			if got.Truncated != c.truncated || got.Incomplete != c.incomplete {
				t.Errorf("got truncated %v incomplete %v, want %v %v", got.Truncated, got.Incomplete, c.truncated, c.incomplete)
			}
		})
	}
}

func TestCollectorKeepsGoingPastABrokenLine(t *testing.T) {
	c := NewCollector(container.LogRequest{LimitBytes: 1 << 20})
	c.Add(rawLine("stdout", "a\n"))
	c.Add([]byte(`{"log":"hal{"log":"b\n"}`))
	c.Add(rawLine("stdout", "c\n"))
	got := c.Result(stamp)
	want := []string{shown + "stdout: a", shown + "stdout: c", failedLine}
	if !slices.Equal(got.Lines, want) || !got.Incomplete || got.Truncated {
		t.Errorf("got %+v, want %q and incomplete", got, want)
	}
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
		if lines != c.want || got.Truncated != (c.want == 1) {
			t.Errorf("limit %d: got %d lines, truncated %v, want %d lines", c.limit, lines, got.Truncated, c.want)
		}
	}
}

// What the original recorded for 20,000 lines of a hundred letters and a limit
// of 1 MB: 5,803 lines and the closing one.
func TestCollectorTruncatesWhereOpenWhiskDoes(t *testing.T) {
	c := NewCollector(container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20})
	at := time.Date(2026, 11, 21, 8, 36, 10, 877656132, time.UTC)
	for i := range 20000 {
		text := fmt.Sprintf("line %d %s\n", i, strings.Repeat("y", 100))
		raw := AppendLine(nil, "stdout", at, []byte(text))
		c.Add(raw[:len(raw)-1])
	}
	got := c.Result(stamp)
	t.Logf("%d lines", len(got.Lines))
	if n := len(got.Lines); n < 5750 || n > 5850 || !got.Truncated {
		t.Errorf("got %d lines, truncated %v", n, got.Truncated)
	}
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
		if got.Ended() != c.ended || got.EndedOnBoth() != c.both {
			t.Errorf("%v: got %v %v", c.outputs, got.Ended(), got.EndedOnBoth())
		}
	}
}
