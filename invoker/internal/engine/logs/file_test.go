package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// daemon writes a log file as Docker's driver does.
type daemon struct {
	t    testing.TB
	path string
}

func newDaemon(t testing.TB) *daemon {
	return &daemon{t: t, path: filepath.Join(t.TempDir(), "c-json.log")}
}

func (d *daemon) write(outputs ...output) {
	d.t.Helper()
	file, err := os.OpenFile(d.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check.NoError(d.t, err)
	defer file.Close()
	_, err = file.WriteString(printLine(0, outputs...).raw)
	check.NoError(d.t, err)
}

// tail reads the log as it is written.
func (d *daemon) tail(waits Waits) *Tail {
	d.t.Helper()
	d.write()
	file, err := OpenFile(d.path)
	check.NoError(d.t, err)
	tail := NewTail(file, waits)
	d.t.Cleanup(func() { _ = tail.Close() })
	return tail
}

func (d *daemon) rotate() {
	d.t.Helper()
	check.NoError(d.t, os.Rename(d.path, d.path+".1"))
}

// rotateTwo keeps two old files.
func (d *daemon) rotateTwo() {
	d.t.Helper()
	if err := os.Rename(d.path+".1", d.path+".2"); err != nil {
		check.ErrorIs(d.t, err, os.ErrNotExist)
	}
	d.rotate()
}

func quick() Waits {
	w := DefaultWaits()
	w.Idle = 100 * time.Millisecond
	return w
}

func TestFile(t *testing.T) {
	run := func(text string) []output { return append([]output{out(text + "\n")}, bothEnds...) }
	cases := []struct {
		name       string
		between    func(d *daemon) // first and second activation
		want       []string
		incomplete bool
	}{
		{"goes on", func(d *daemon) { d.write(run("b")...) }, []string{"b"}, false},
		{"rotated", func(d *daemon) { d.rotate(); d.write(run("b")...) }, []string{"b"}, false},
		{"rotated in the middle", func(d *daemon) { d.write(out("b\n")); d.rotate(); d.write(run("c")...) }, []string{"b", "c"}, false},
		{"rotated twice", func(d *daemon) { d.rotate(); d.write(out("b\n")); d.rotate(); d.write(run("c")...) },
			[]string{"b", "c", failedText}, true},
		{"rotated twice, two old files kept", func(d *daemon) {
			d.write(out("b\n"))
			d.rotateTwo()
			d.write(out("c\n"))
			d.rotateTwo()
			d.write(run("d")...)
		},
			[]string{"b", "c", "d"}, false},
		{"rotated three times, two old files kept", func(d *daemon) {
			d.rotateTwo()
			d.write(out("b\n"))
			d.rotateTwo()
			d.write(out("c\n"))
			d.rotateTwo()
			d.write(run("d")...)
		}, []string{"b", "c", "d", failedText}, true},
		{"cut", func(d *daemon) {
			check.NoError(d.t, os.Truncate(d.path, 0))
			d.write(bothEnds...)
		}, []string{failedText}, true},
		{"removed", func(d *daemon) {
			d.write(run("b")...)
			check.NoError(d.t, os.Remove(d.path))
		}, []string{"b"}, false},
		{"removed in the middle", func(d *daemon) {
			d.write(out("b\n"))
			check.NoError(d.t, os.Remove(d.path))
		}, []string{"b", failedText}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDaemon(t)
			d.write(run("a longer line than the others")...)
			tail := d.tail(quick())
			first := tail.Collect(t.Context(), waiting)
			check.Equal(check.Must(t), len(first.Lines), 1)
			check.That(check.Must(t), !first.Incomplete, "first: %+v", first)
			c.between(d)
			got := tail.Collect(t.Context(), waiting)
			check.EqualSlices(t, shortOf(got.Lines), c.want)
			check.Equal(t, got.Incomplete, c.incomplete)
		})
	}
}

// TestOnlyRegularFiles: other kinds of files are refused without blocking.
func TestOnlyRegularFiles(t *testing.T) {
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	link := func(path string) error { return os.Symlink("/dev/null", path) }
	for name, put := range map[string]func(path string) error{
		"nothing": nil, "a pipe": pipe, "a link": link, "a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(t.TempDir(), "log")
		if put != nil {
			check.NoError(t, put(path))
		}
		_, err := OpenFile(path)
		check.That(t, err != nil, "%s is opened", name)
		if put == nil {
			continue
		}
		d := newDaemon(t)
		tail := d.tail(quick())
		d.write(out("a\n"))
		d.rotate()
		check.NoError(t, put(d.path))
		got := tail.Collect(t.Context(), waiting)
		check.EqualSlices(t, shortOf(got.Lines), []string{"a", failedText}, "%s in place of the log", name)
		check.That(t, got.Incomplete, "%s in place of the log: got %+v", name, got)
	}
}

// TestRotatedBeforeTheFirstReading: the beginning is read, and the gap after it is
// reported.
func TestRotatedBeforeTheFirstReading(t *testing.T) {
	d := newDaemon(t)
	tail := d.tail(quick())
	d.write(out("a\n"))
	d.rotate()
	d.write(out("b\n"))
	d.rotate()
	d.write(append([]output{out("c\n")}, bothEnds...)...)
	got := tail.Collect(t.Context(), waiting)
	check.EqualSlices(t, shortOf(got.Lines), []string{"a", "b", "c", failedText})
	check.That(t, got.Incomplete, "got %+v", got)
}

// TestSkipARotatedLog: an adopted container's log may have rotated before and after it
// was opened. Skip leaves out the lines up to then, and the later ones are read once.
func TestSkipARotatedLog(t *testing.T) {
	run := func(d *daemon, text string) { d.write(append([]output{out(text + "\n")}, bothEnds...)...) }
	cases := []struct {
		name       string
		opened     func(d *daemon) // after the file is opened, before Skip
		since      func(d *daemon) // after Skip
		want       []string
		incomplete bool
	}{
		{"goes on", func(*daemon) {}, func(d *daemon) { run(d, "c") }, []string{"c"}, false},
		{"rotated once more", func(*daemon) {}, func(d *daemon) { d.rotateTwo(); run(d, "c") }, []string{"c"}, false},
		{"rotated once more in the middle", func(*daemon) {}, func(d *daemon) {
			d.write(out("c\n"))
			d.rotateTwo()
			run(d, "d")
		}, []string{"c", "d"}, false},
		{"rotated twice more", func(*daemon) {}, func(d *daemon) {
			d.write(out("c\n"))
			d.rotateTwo()
			d.write(out("d\n"))
			d.rotateTwo()
			run(d, "e")
		}, []string{"c", "d", "e"}, false},
		{"rotated before Skip", func(d *daemon) { d.rotateTwo(); run(d, "late") }, func(d *daemon) {
			d.write(out("c\n"))
			d.rotateTwo()
			run(d, "d")
		}, []string{"c", "d"}, false},
		{"rotated away before Skip", func(d *daemon) {
			for range 3 {
				d.rotateTwo()
				run(d, "late")
			}
		}, func(d *daemon) { run(d, "c") }, []string{"c"}, false},
		{"between the steps of a rotation at Skip", (*daemon).rotateTwo, func(d *daemon) { run(d, "c") }, []string{"c"}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDaemon(t)
			run(d, "a, which is longer than the others")
			d.rotateTwo()
			run(d, "b, which is longer, too")
			tail := d.tail(quick())
			c.opened(d)
			check.NoError(t, tail.Skip(t.Context()))
			c.since(d)
			got := tail.Collect(t.Context(), waiting)
			check.EqualSlices(t, shortOf(got.Lines), c.want)
			check.Equal(t, got.Incomplete, c.incomplete)
			check.That(t, !tail.Ready(waiting), "lines are left for the next activation")
		})
	}
}

// BenchmarkCollect measures a warm activation whose logs are already in the file.
func BenchmarkCollect(b *testing.B) {
	for _, lines := range []int{0, 10, 1000} {
		b.Run(fmt.Sprintf("lines=%d", lines), func(b *testing.B) {
			d := newDaemon(b)
			var outputs []output
			for i := range lines {
				outputs = append(outputs, out(fmt.Sprintf("line %d of an action\n", i)))
			}
			outputs = append(outputs, bothEnds...)
			tail := d.tail(DefaultWaits())
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				d.write(outputs...)
				b.StartTimer()
				got := tail.Collect(b.Context(), waiting)
				check.Equal(check.Must(b), len(got.Lines), lines)
			}
		})
	}
}

// From the writing of the last sentinel to the result, with the reader
// already waiting.
func BenchmarkLatency(b *testing.B) {
	d := newDaemon(b)
	tail := d.tail(DefaultWaits())
	var total time.Duration
	for b.Loop() {
		wrote := make(chan time.Time, 1)
		go func() {
			<-time.After(time.Millisecond)
			d.write(bothEnds...)
			wrote <- time.Now()
		}()
		check.That(check.Must(b), !tail.Collect(b.Context(), container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20}).Incomplete, "incomplete")
		total += time.Since(<-wrote)
	}
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/late")
}

// A log file is ready with the ends of an activation's output.
func TestReady(t *testing.T) {
	waiting := container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20, Alone: true}
	d := newDaemon(t)
	tail := d.tail(quick())
	ready := func(want bool, when string) {
		t.Helper()
		got := tail.Ready(waiting)
		check.Equal(t, got, want, "ready is %t %s", got, when)
	}
	ready(false, "without a line")
	d.write(out("a\n"))
	ready(false, "before the ends")
	d.write(bothEnds...)
	ready(true, "with the ends")
	check.That(t, !tail.Ready(container.LogRequest{LimitBytes: 1 << 20}), "ready although nothing shows where the output ends")
	got := tail.Collect(t.Context(), waiting)
	check.That(t, !got.Incomplete, "read %+v", got)
	check.Equal(t, len(got.Lines), 1)
	ready(false, "when all was read")
}

// TestLateLogHoldsNoMemory: a large log reserves memory once it is complete, wherever
// its end lies, or once its end was waited for.
func TestLateLogHoldsNoMemory(t *testing.T) {
	lines := make([]output, 200)
	for i := range lines {
		lines[i] = out(fmt.Sprintf("%d %s\n", i, strings.Repeat("X", 1000)))
	}
	for name, end := range map[string]func(d *daemon){
		"in the same file":      func(d *daemon) { d.write(bothEnds...) },
		"in the next file":      func(d *daemon) { d.rotate(); d.write(bothEnds...) },
		"after two more floods": func(d *daemon) { d.write(lines...); d.rotate(); d.write(append(lines, bothEnds...)...) },
		"nowhere":               func(*daemon) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDaemon(t)
			tail := d.tail(DefaultWaits())
			ended := time.Now().Add(9 * time.Second)
			d.write(lines...)
			go func() {
				time.Sleep(time.Until(ended))
				end(d)
			}()
			req := alone
			req.Reserve = func() error {
				check.That(t, !time.Now().Before(ended), "%s: memory is taken before the end of the log is there", name)
				return nil
			}
			got := tail.Collect(t.Context(), req)
			check.AtLeast(t, len(got.Lines), 200, name)
			check.Equal(t, got.Incomplete, name == "nowhere", name)
			check.AtMost(t, time.Since(ended), 2*time.Second, name)
		})
	}
}
