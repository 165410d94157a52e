package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
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
	if err != nil {
		d.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(printLine(0, outputs...).raw); err != nil {
		d.t.Fatal(err)
	}
}

// tail reads the log as it is written.
func (d *daemon) tail(waits Waits) *Tail {
	d.t.Helper()
	d.write()
	file, err := OpenFile(d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	tail := NewTail(file, waits)
	d.t.Cleanup(func() { _ = tail.Close() })
	return tail
}

func (d *daemon) rotate() {
	d.t.Helper()
	if err := os.Rename(d.path, d.path+".1"); err != nil {
		d.t.Fatal(err)
	}
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
			[]string{"c", failedText}, true},
		{"cut", func(d *daemon) {
			if err := os.Truncate(d.path, 0); err != nil {
				d.t.Fatal(err)
			}
			d.write(bothEnds...)
		}, []string{failedText}, true},
		{"removed", func(d *daemon) {
			d.write(run("b")...)
			if err := os.Remove(d.path); err != nil {
				d.t.Fatal(err)
			}
		}, []string{"b"}, false},
		{"removed in the middle", func(d *daemon) {
			d.write(out("b\n"))
			if err := os.Remove(d.path); err != nil {
				d.t.Fatal(err)
			}
		}, []string{"b", failedText}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDaemon(t)
			d.write(run("a longer line than the others")...)
			tail := d.tail(quick())
			if got := tail.Collect(t.Context(), waiting); len(got.Lines) != 1 || got.Incomplete {
				t.Fatalf("first: got %+v", got)
			}
			c.between(d)
			got := tail.Collect(t.Context(), waiting)
			if texts := shortOf(got.Lines); !slices.Equal(texts, c.want) || got.Incomplete != c.incomplete {
				t.Errorf("got %q, incomplete %v, want %q, %v", texts, got.Incomplete, c.want, c.incomplete)
			}
		})
	}
}

// TestOnlyRegularFiles: nothing else is opened, and nothing waits for it.
func TestOnlyRegularFiles(t *testing.T) {
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	link := func(path string) error { return os.Symlink("/dev/null", path) }
	for name, put := range map[string]func(path string) error{
		"nothing": nil, "a pipe": pipe, "a link": link, "a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(t.TempDir(), "log")
		if put != nil {
			if err := put(path); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := OpenFile(path); err == nil {
			t.Errorf("%s is opened", name)
		}
		if put == nil {
			continue
		}
		d := newDaemon(t)
		tail := d.tail(quick())
		d.write(out("a\n"))
		d.rotate()
		if err := put(d.path); err != nil {
			t.Fatal(err)
		}
		got := tail.Collect(t.Context(), waiting)
		if !slices.Equal(shortOf(got.Lines), []string{"a", failedText}) || !got.Incomplete {
			t.Errorf("%s in place of the log: got %+v", name, got)
		}
	}
}

// TestRotatedBeforeTheFirstReading: the beginning is read, and what is missing after
// it is stated.
func TestRotatedBeforeTheFirstReading(t *testing.T) {
	d := newDaemon(t)
	tail := d.tail(quick())
	d.write(out("a\n"))
	d.rotate()
	d.write(out("b\n"))
	d.rotate()
	d.write(append([]output{out("c\n")}, bothEnds...)...)
	got := tail.Collect(t.Context(), waiting)
	if !slices.Equal(shortOf(got.Lines), []string{"a", "c", failedText}) || !got.Incomplete {
		t.Errorf("got %+v", got)
	}
}

// What a warm activation costs with its logs in the file already.
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
				if len(got.Lines) != lines {
					b.Fatalf("got %d lines", len(got.Lines))
				}
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
		if got := tail.Collect(b.Context(), container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20}); got.Incomplete {
			b.Fatal("incomplete")
		}
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
		if got := tail.Ready(waiting); got != want {
			t.Errorf("ready is %t %s", got, when)
		}
	}
	ready(false, "without a line")
	d.write(out("a\n"))
	ready(false, "before the ends")
	d.write(bothEnds...)
	ready(true, "with the ends")
	if tail.Ready(container.LogRequest{LimitBytes: 1 << 20}) {
		t.Error("ready although nothing shows where the output ends")
	}
	if got := tail.Collect(t.Context(), waiting); got.Incomplete || len(got.Lines) != 1 {
		t.Errorf("read %+v", got)
	}
	ready(false, "when all was read")
}
