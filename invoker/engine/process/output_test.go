package process

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/logs"
)

// texts copies what a stream prints and gives the texts of the lines written.
func texts(t *testing.T, from io.Reader, limit int64) (*output, []string) {
	t.Helper()
	o, err := openOutput(filepath.Join(t.TempDir(), "log"), limit)
	if err != nil {
		t.Fatal(err)
	}
	printed(t, o, "stdout", from)
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	return o, readTexts(t, o.path)
}

// printed writes all that a stream of a process prints.
func printed(t *testing.T, o *output, name string, from io.Reader) {
	t.Helper()
	s := &stream{name: name, out: o}
	if _, err := io.Copy(s, from); err != nil {
		t.Error(err)
	}
	s.end()
}

func readTexts(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for raw := range bytes.Lines(content) {
		line, err := logs.ParseLine(bytes.TrimSuffix(raw, []byte("\n")))
		if err != nil || line.Stream != "stdout" {
			t.Fatalf("line %q: %v, %v", raw, line, err)
		}
		got = append(got, line.Log)
	}
	return got
}

// A line that a full disk took a part of does not take the next one with it, which
// may be the end of an activation.
func TestLineAfterAFullDisk(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	reader, full := os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "disk")
	defer reader.Close()
	defer full.Close()
	if _, err := unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Skip("the size of a pipe cannot be set: ", err)
	}
	o := &output{file: full}
	if err := full.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds the disk full
		o.write("stdout", bytes.Repeat([]byte("x"), 5000))
	}
	part := make([]byte, 4096)
	if _, err := io.ReadFull(reader, part); err != nil {
		t.Fatal(err)
	}
	_ = full.SetWriteDeadline(time.Time{})
	o.write("stdout", []byte("next\n"))
	o.write("stdout", []byte("last\n"))
	_ = full.Close()
	rest, _ := io.ReadAll(reader)
	lines := bytes.Split(append(part, rest...), []byte("\n"))
	if len(lines) != 4 || !bytes.Contains(lines[1], []byte("next")) || !bytes.Contains(lines[2], []byte("last")) {
		t.Errorf("got %d lines: %q", len(lines), lines[1:])
	}
	for _, raw := range lines[1 : len(lines)-1] {
		if _, err := logs.ParseLine(raw); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestOutputIsCutAsDockerDoes(t *testing.T) {
	long := strings.Repeat("x", logs.MaxPiece)
	cases := []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"lines", "a\n\nb\r\n", []string{"a\n", "\n", "b\r\n"}},
		{"no line feed at the end", "a\nb", []string{"a\n", "b\n"}},
		{"long line", long + "yz\n", []string{long, "yz\n"}},
		{"line of the very length", long[1:] + "\n", []string{long[1:] + "\n"}},
		{"one more", long + "\n", []string{long, "\n"}},
		{"long line behind a short one", "a\n" + long + long + "b\n", []string{"a\n", long, long, "b\n"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for how, from := range map[string]io.Reader{
				"at once": strings.NewReader(c.text), "by halves": iotest.HalfReader(strings.NewReader(c.text)),
			} {
				_, got := texts(t, from, 0)
				if strings.Join(got, "|") != strings.Join(c.want, "|") {
					t.Errorf("%s: got %d lines %.60q, want %d", how, len(got), got, len(c.want))
				}
			}
		})
	}
}

// The reader gets every line of a log that was rotated while it read.
func TestOutputRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	o, err := openOutput(path, 400)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	file, err := logs.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tail := logs.NewTail(file, logs.DefaultWaits())
	defer tail.Close()
	for i := range 20 {
		text := strings.Repeat(string(rune('a'+i)), 20)
		printed(t, o, "stdout", strings.NewReader(text+"\n"+logs.Sentinel+"\n"))
		printed(t, o, "stderr", strings.NewReader(logs.Sentinel+"\n"))
		got := tail.Collect(t.Context(), container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20, Now: time.Now()})
		if len(got.Lines) != 1 || !strings.HasSuffix(got.Lines[0], text) || got.Incomplete {
			t.Fatalf("run %d: got %+v", i, got)
		}
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Error(err)
	}
}

// TestOutputDoesNotWaitForAPipe: a pipe that the process puts in the place of its log
// does not hold up the rotation, and is not written to.
func TestOutputDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openOutput(path, 0); err == nil {
		t.Error("a pipe is opened")
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte("a\nb"))
	f.Add(bytes.Repeat([]byte("x"), 2*logs.MaxPiece+1))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, got := texts(t, bytes.NewReader(text), 0)
		want := string([]rune(string(text))) // invalid bytes as the file shows them
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if len(text) <= logs.MaxPiece && strings.Join(got, "") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func BenchmarkCreateToAnswer(b *testing.B) {
	f := start(b, nil)
	for b.Loop() {
		h := f.create()
		f.mustRun(h.Addr, wish{})
		if err := f.Remove(b.Context(), h.ID); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	f := start(b, nil)
	for b.Loop() {
		h := f.create()
		b.StopTimer()
		if err := f.Remove(b.Context(), h.ID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
