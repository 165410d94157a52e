package logs

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

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// texts copies a stream into a log and returns the texts of the written lines.
func texts(t *testing.T, from io.Reader, limit int64) (*Writer, []string) {
	t.Helper()
	o, err := OpenWriter(filepath.Join(t.TempDir(), "log"), limit)
	check.NoError(t, err)
	printed(t, o, "stdout", from)
	check.NoError(t, o.Close())
	return o, readTexts(t, o.path)
}

// printed writes all that a stream of a process prints.
func printed(t *testing.T, o *Writer, name string, from io.Reader) {
	t.Helper()
	s := o.Stream(name)
	if _, err := io.Copy(s, from); err != nil {
		t.Error(err)
	}
	s.End()
}

func readTexts(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	check.NoError(t, err)
	var got []string
	for raw := range bytes.Lines(content) {
		line, err := parseLine(bytes.TrimSuffix(raw, []byte("\n")))
		check.NoError(t, err, "line %q: %v", raw, line)
		check.Equal(check.Must(t), line.Stream, "stdout", "line %q", raw)
		got = append(got, line.Log)
	}
	return got
}

// A line that a full disk took a part of does not take the next one with it, which
// may be the end of an activation.
func TestLineAfterAFullDisk(t *testing.T) {
	var ends [2]int
	check.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	reader, full := os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "disk")
	defer reader.Close()
	defer full.Close()
	if _, err := unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Skip("the size of a pipe cannot be set: ", err)
	}
	o := &Writer{file: full}
	check.NoError(t, full.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
	for range 2 { // the second finds the disk full
		o.write("stdout", bytes.Repeat([]byte("x"), 5000))
	}
	part := make([]byte, 4096)
	_, err := io.ReadFull(reader, part)
	check.NoError(t, err)
	_ = full.SetWriteDeadline(time.Time{})
	o.write("stdout", []byte("next\n"))
	o.write("stdout", []byte("last\n"))
	_ = full.Close()
	rest, _ := io.ReadAll(reader)
	lines := bytes.Split(append(part, rest...), []byte("\n"))
	check.Equal(check.Must(t), len(lines), 4)
	check.Contains(t, string(lines[1]), "next")
	check.Contains(t, string(lines[2]), "last")
	for _, raw := range lines[1 : len(lines)-1] {
		_, err := parseLine(raw)
		check.NoError(t, err, "%q", raw)
	}
}

func TestOutputIsCutAsDockerDoes(t *testing.T) {
	long := strings.Repeat("x", maxPiece)
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
				check.Equal(t, strings.Join(got, "|"), strings.Join(c.want, "|"), "%s: got %d lines %.60q, want %d", how, len(got), got, len(c.want))
			}
		})
	}
}

// The reader gets every line of a log that was rotated while it read.
func TestOutputRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	o, err := OpenWriter(path, 400)
	check.NoError(t, err)
	defer o.Close()
	file, err := OpenFile(path)
	check.NoError(t, err)
	tail := NewTail(file, DefaultWaits())
	defer tail.Close()
	for i := range 20 {
		text := strings.Repeat(string(rune('a'+i)), 20)
		printed(t, o, "stdout", strings.NewReader(text+"\n"+Sentinel+"\n"))
		printed(t, o, "stderr", strings.NewReader(Sentinel+"\n"))
		got := tail.Collect(t.Context(), container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20, Now: time.Now()})
		check.Equal(check.Must(t), len(got.Lines), 1, "run %d", i)
		check.That(check.Must(t), strings.HasSuffix(got.Lines[0], text), "run %d: got %+v", i, got)
		check.That(check.Must(t), !got.Incomplete, "run %d: got %+v", i, got)
	}
	_, err = os.Stat(path + ".1")
	check.NoError(t, err)
}

// TestTwoRotationsLoseNothing: an activation that prints somewhat more than its limit
// rotates the log twice. Its reader, which begins late, finds every line and knows it.
func TestTwoRotationsLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	o, err := OpenWriter(path, 0)
	check.NoError(t, err)
	defer o.Close()
	file, err := OpenFile(path)
	check.NoError(t, err)
	tail := NewTail(file, DefaultWaits())
	defer tail.Close()
	for _, text := range []string{"a", "b", "c"} {
		if text != "a" {
			check.NoError(t, o.Rotate())
		}
		printed(t, o, "stdout", strings.NewReader(text+"\n"))
	}
	printed(t, o, "stdout", strings.NewReader(Sentinel+"\n"))
	printed(t, o, "stderr", strings.NewReader(Sentinel+"\n"))
	got := tail.Collect(t.Context(), container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20, Now: time.Now()})
	check.Equal(t, len(got.Lines), 3, "%q", got.Lines)
	check.That(t, !got.Incomplete, "got %+v", got)
}

// TestOutputDoesNotWaitForAPipe: a pipe that the process puts in the place of its log
// does not hold up the rotation, and is not written to.
func TestOutputDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	check.NoError(t, unix.Mkfifo(path, 0o600))
	_, err := OpenWriter(path, 0)
	check.That(t, err != nil, "a pipe is opened")
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte("a\nb"))
	f.Add(bytes.Repeat([]byte("x"), 2*maxPiece+1))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, got := texts(t, bytes.NewReader(text), 0)
		want := string([]rune(string(text))) // invalid bytes as the file shows them
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if len(text) <= maxPiece && strings.Join(got, "") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
