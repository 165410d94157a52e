package logs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// script is a source that sends its parts at their times.
type script struct {
	began time.Time
	parts []part
	err   error // the result of Begin
	open  int
}

type part struct {
	after time.Duration
	raw   string
	err   error
}

func (s *script) Begin(context.Context, bool) error { s.open++; return s.err }
func (s *script) Skip(context.Context) error {
	for len(s.parts) > 0 && time.Since(s.began) >= s.parts[0].after {
		s.parts = s.parts[1:]
	}
	return nil
}

func (s *script) End()         { s.open-- }
func (s *script) Close() error { return nil }

func (s *script) Read(p []byte) (int, error) {
	n := 0
	for len(s.parts) > 0 && time.Since(s.began) >= s.parts[0].after && n < len(p) {
		next := &s.parts[0]
		if next.err != nil {
			if n > 0 {
				return n, nil
			}
			err := next.err
			if !errors.Is(err, io.EOF) {
				s.parts = s.parts[1:]
			}
			return 0, err
		}
		done := copy(p[n:], next.raw)
		n += done
		if next.raw = next.raw[done:]; next.raw == "" {
			s.parts = s.parts[1:]
		}
	}
	return n, nil
}

func printLine(after time.Duration, outputs ...output) part {
	var raw []byte
	for _, o := range outputs {
		raw = AppendLine(raw, o.stream, stamp.Add(250*time.Millisecond), []byte(o.text))
	}
	return part{after: after, raw: string(raw)}
}

var (
	bothEnds = []output{out(endOfStream), errOut(endOfStream)}
	waiting  = container.LogRequest{WaitForSentinel: true, LimitBytes: 10 << 20}
	alone    = container.LogRequest{WaitForSentinel: true, LimitBytes: 10 << 20, Alone: true}
	reading1 = container.LogRequest{LimitBytes: 10 << 20}
	failing  = container.LogRequest{LimitBytes: 10 << 20, Failed: true}
	answered = container.LogRequest{LimitBytes: 10 << 20, Failed: true, Answered: true, Alone: true}
)

// shortOf gives the texts of record lines, without time and stream.
func shortOf(lines []string) []string {
	var texts []string
	for _, line := range lines {
		if len(line) > timeWidth+9 {
			line = line[timeWidth+9:]
		}
		texts = append(texts, line)
	}
	return texts
}

func TestTail(t *testing.T) {
	end := func(outputs ...output) []output { return append(slices.Clone(outputs), bothEnds...) }
	long := strings.Repeat("x", maxLine+chunkSize)
	many := slices.Repeat([]output{out(strings.Repeat("x", 1000) + "\n")}, 100)
	texts := slices.Repeat([]string{strings.Repeat("x", 1000)}, 100)
	small := container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20}
	var slow []part // 130 KB every 6 seconds
	for i := range 7 {
		slow = append(slow, printLine(time.Duration(i)*6*time.Second, slices.Concat(many, many[:30])...))
	}
	slowTexts := slices.Concat(slices.Repeat(texts, 9), texts[:10])
	cases := []struct {
		name       string
		req        container.LogRequest
		parts      []part
		want       []string
		incomplete bool
		took       time.Duration // at least, and at most a fifth more
	}{
		{"all there", waiting, []part{printLine(0, end(out("a\n"))...)}, []string{"a"}, false, 0},
		{"late by a millisecond", waiting, []part{printLine(time.Millisecond, end(out("a\n"))...)}, []string{"a"}, false, time.Millisecond},
		{"line in two halves", waiting, []part{
			{raw: `{"log":"a\n","str`}, {after: time.Millisecond, raw: `eam":"stdout","time":"2024-06-10T06:13:20.25Z"}` + "\n"},
			printLine(time.Millisecond, bothEnds...)}, []string{"a"}, false, time.Millisecond},
		{"slow, but never silent", waiting, []part{printLine(1900*time.Millisecond, out("a\n")), printLine(3800*time.Millisecond, bothEnds...)},
			[]string{"a"}, false, 3800 * time.Millisecond},
		{"silent for too long", waiting, []part{printLine(0, out("a\n")), printLine(2100*time.Millisecond, bothEnds...)},
			[]string{"a", failedText}, true, 2 * time.Second},
		{"daemon behind with a large log", waiting, []part{printLine(0, many...), printLine(8*time.Second, end(out("b\n"))...)},
			append(slices.Clone(texts), "b"), false, 8 * time.Second},
		{"daemon silent after a large log", waiting, []part{printLine(0, many...)}, append(slices.Clone(texts), failedText), true, 10 * time.Second},
		{"large log that arrives slowly", small, append(slow, printLine(40*time.Second, bothEnds...)), slowTexts, false, 40 * time.Second},
		{"not waiting", reading1, []part{printLine(0, out("a\n")), printLine(time.Second, out("b\n"))}, []string{"a"}, false, 10 * time.Millisecond},
		{"failed, last words on their way", failing, []part{printLine(15*time.Millisecond, out("a\n"))},
			[]string{"a", brokenText}, false, 115 * time.Millisecond},
		{"failed by its answer, all there", answered, []part{printLine(0, end(out("a\n"))...)}, []string{"a", brokenText}, false, 0},
		{"failed by its answer, the log late", answered, []part{printLine(900*time.Millisecond, out("a\n")), printLine(1500*time.Millisecond, bothEnds...)},
			[]string{"a", brokenText}, false, 1500 * time.Millisecond},
		{"failed by its answer, without sentinels", answered, []part{printLine(0, out("a\n"))}, []string{"a", brokenText}, false, time.Second},
		{"cut-off last line", reading1, []part{{raw: `{"log":"a`}}, []string{failedText}, true, 100 * time.Millisecond},
		{"end of the log", waiting, []part{printLine(0, out("a\n")), {err: io.EOF}}, []string{"a", failedText}, true, 0},
		{"end of a whole log", waiting, []part{printLine(0, end(out("a\n"))...), {err: io.EOF}}, []string{"a"}, false, 0},
		{"gap", waiting, []part{printLine(0, out("a\n")), {err: errLost}, printLine(0, end(out("c\n"))...)}, []string{"a", "c", failedText}, true, 0},
		{"unreadable in the middle", waiting, []part{printLine(0, out("a\n")), {err: io.ErrClosedPipe}, {err: io.EOF}}, []string{"a", failedText}, true, 0},
		{"line without measure", waiting, []part{{raw: long + "\n"}, printLine(0, end(out("b\n"))...)}, []string{"b", failedText}, true, 0},
		{"two on one stream", alone, []part{printLine(0, out("a\n"), out(endOfStream), out("b\n"), out(endOfStream)), printLine(50*time.Millisecond, errOut(endOfStream))},
			[]string{"a", "b"}, false, 50 * time.Millisecond},
		{"two on one stream and no more", alone, []part{printLine(0, out("a\n"), out(endOfStream), out(endOfStream))},
			[]string{"a"}, false, 100 * time.Millisecond},
		{"forged end", alone, []part{printLine(0, end(append(end(out("a\n")), out("b\n"))...)...)}, []string{"a", "b"}, false, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &script{began: time.Now(), parts: c.parts}
				began := time.Now()
				got := NewTail(source, DefaultWaits()).Collect(t.Context(), c.req)
				texts := shortOf(got.Lines)
				check.EqualSlices(t, texts, c.want)
				check.Equal(t, got.Incomplete, c.incomplete)
				check.That(t, !got.Truncated, "got %.200q, incomplete %v, truncated %v\nwant %q, %v", texts, got.Incomplete, got.Truncated, c.want, c.incomplete)
				took := time.Since(began)
				check.AtLeast(t, took, c.took)
				check.AtMost(t, took, c.took+max(c.took/5, 6*time.Millisecond))
				check.Equal(t, source.open, 0, "the collection was not ended")
			})
		})
	}
}

// Each activation gets its own lines, though they are read together.
func TestTailKeepsWhatIsNotYetWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := append([]output{out("a\n")}, bothEnds...)
		second := append([]output{out("b\n")}, bothEnds...)
		source := &script{began: time.Now(), parts: []part{printLine(0, append(first, second...)...)}}
		tail := NewTail(source, DefaultWaits())
		for _, want := range []string{"a", "b"} {
			got := tail.Collect(t.Context(), waiting)
			texts := shortOf(got.Lines)
			check.EqualSlices(t, texts, []string{want}, "got %q, want %q", texts, want)
		}
	})
}

// Past the limit the rest is passed over, so that the next activation of the
// container begins with its own lines.
func TestTailSkipsTheRestOfATruncatedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flood []output
		for range 10000 {
			flood = append(flood, out("XX flood "+strings.Repeat("y", 200)+"\n"))
		}
		flood = append(flood, bothEnds...)
		source := &script{began: time.Now(), parts: []part{printLine(0, flood...), printLine(0, append([]output{out("b\n")}, bothEnds...)...)}}
		tail := NewTail(source, DefaultWaits())
		req := waiting
		req.LimitBytes = 1 << 20
		got := tail.Collect(t.Context(), req)
		check.That(check.Must(t), got.Truncated, "got %d lines, truncated %v, incomplete %v", len(got.Lines), got.Truncated, got.Incomplete)
		check.That(t, !got.Incomplete, "got %d lines, truncated %v, incomplete %v", len(got.Lines), got.Truncated, got.Incomplete)
		check.AtLeast(t, len(got.Lines), 3000)
		got = tail.Collect(t.Context(), req)
		texts := shortOf(got.Lines)
		check.EqualSlices(t, texts, []string{"b"})
		check.That(t, !got.Truncated, "next: got %q", texts)
		check.AtMost(t, cap(tail.buf), 2*firstChunk, "bytes are kept after a flood")
	})
}

// losing is a source whose first collection does not get the end of the log, which is
// there for the next one.
type losing struct {
	*script
	lost []part
}

func (l *losing) End() {
	l.script.End()
	l.parts, l.lost = append(l.parts, l.lost...), nil
}

// TestAbandonedLogIsNotOfTheNext: where a collection does not get the end of a truncated
// log, the next activation of the container begins with its own lines.
func TestAbandonedLogIsNotOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flood := slices.Repeat([]output{out(strings.Repeat("y", 1000) + "\n")}, 2000)
		source := &losing{
			script: &script{began: time.Now(), parts: []part{printLine(0, flood...)}},
			lost:   []part{printLine(0, append(flood[:10:10], bothEnds...)...)},
		}
		tail := NewTail(source, DefaultWaits())
		req := alone
		req.LimitBytes = 1 << 20
		got := tail.Collect(t.Context(), req)
		check.That(t, got.Truncated, "incomplete %t", got.Incomplete)
		source.parts = append(source.parts, printLine(0, append([]output{out("b\n")}, bothEnds...)...))
		check.EqualSlices(t, shortOf(tail.Collect(t.Context(), req).Lines), []string{"b"})
	})
}

// An endless flood is truncated, and the collection ends within OpenWhisk's limit for
// one after the last extension.
func TestTailEndsAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		got := NewTail(flood{}, DefaultWaits()).Collect(t.Context(), container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20})
		took := time.Since(began)
		check.AtLeast(t, took, 10*time.Second)
		check.AtMost(t, took, 31*time.Second)
		check.That(check.Must(t), got.Truncated, "truncated %v, incomplete %v", got.Truncated, got.Incomplete)
		check.That(t, got.Incomplete, "truncated %v, incomplete %v", got.Truncated, got.Incomplete)
	})
}

// flood is a source with always one more line; each look takes a while.
type flood struct{}

func (flood) Skip(context.Context) error { return nil }

func (flood) Begin(context.Context, bool) error { return nil }
func (flood) End()                              {}
func (flood) Close() error                      { return nil }
func (flood) Read(p []byte) (int, error) {
	<-time.After(10 * time.Millisecond)
	return copy(p, AppendLine(nil, "stdout", stamp, bytes.Repeat([]byte("y"), 1000))), nil
}

func TestTailEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		got := NewTail(&script{began: began}, DefaultWaits()).Collect(ctx, waiting)
		took := time.Since(began)
		check.Equal(t, took, time.Second)
		check.That(t, got.Incomplete, "took %v, incomplete %v", took, got.Incomplete)
	})
}

func TestTailUnreadable(t *testing.T) {
	got := NewTail(&script{err: io.ErrUnexpectedEOF}, DefaultWaits()).Collect(t.Context(), failing)
	check.EqualSlices(t, got.Lines, []string{failedText})
	check.That(t, got.Incomplete, "got %+v", got)
}

// The lines that the collector adds carry the caller's time and the wait.
func TestTailStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := waiting
		req.Now = stamp
		got := NewTail(&script{began: time.Now()}, DefaultWaits()).Collect(t.Context(), req)
		check.Equal(check.Must(t), len(got.Lines), 1)
		check.That(t, strings.HasPrefix(got.Lines[0], "2024-06-10T06:13:22.0"), "got %q", got.Lines)
	})
}

// TestTailReservesMemory: a large log waits for memory, and the wait does not count
// against its time limit. A small log does not reserve memory.
func TestTailReservesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for lines, want := range map[int]int{10: 0, 20_000: 1} {
			var raw []byte
			for range lines {
				raw = AppendLine(raw, "stdout", stamp, []byte("x\n"))
			}
			asked := 0
			req := waiting
			req.Reserve = func() error {
				asked++
				time.Sleep(time.Hour)
				return nil
			}
			source := &script{began: time.Now(), parts: []part{{raw: string(raw)}, printLine(0, bothEnds...)}}
			got := NewTail(source, DefaultWaits()).Collect(t.Context(), req)
			check.Equal(t, asked, want)
			check.Equal(t, len(got.Lines), lines)
			check.That(t, !got.Incomplete, "%d lines: asked %d times for memory, got %d lines, incomplete %t", lines, asked, len(got.Lines), got.Incomplete)
		}
	})
}

// TestTailWithoutMemory: if no memory becomes free, the result has the lines read so
// far.
func TestTailWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var raw []byte
		for range 20_000 {
			raw = AppendLine(raw, "stdout", stamp, []byte("x\n"))
		}
		req := waiting
		req.Reserve = func() error { return context.Canceled }
		got := NewTail(&script{began: time.Now(), parts: []part{{raw: string(raw)}}}, DefaultWaits()).Collect(t.Context(), req)
		check.That(t, len(got.Lines) != 0, "got %d lines, incomplete %t", len(got.Lines), got.Incomplete)
		check.Less(t, len(got.Lines), 20_000)
		check.That(t, got.Incomplete, "got %d lines, incomplete %t", len(got.Lines), got.Incomplete)
	})
}
