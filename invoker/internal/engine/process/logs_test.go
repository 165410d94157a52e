package process

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestLogs(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.mustRun(h.Addr, wish{Stdout: "one\ntwo", Stderr: "three\n"})
	got := f.Logs(t.Context(), h.ID, request())
	check.Equal(check.Must(t), len(got.Lines), 3)
	check.That(check.Must(t), !got.Incomplete, "got %+v", got)
	check.That(check.Must(t), !got.Truncated, "got %+v", got)
	all := strings.Join(got.Lines, "\n")
	for _, want := range []string{" stdout: one", " stdout: two", " stderr: three"} {
		check.Contains(t, all, want, "%q is missing in %q", want, got.Lines)
	}
	f.mustRun(h.Addr, wish{})
	got = f.Logs(t.Context(), h.ID, request())
	check.Equal(t, len(got.Lines), 0)
	check.That(t, !got.Incomplete, "second run: got %+v", got)
	got = f.Logs(t.Context(), "unknown", request())
	check.That(check.Must(t), got.Incomplete, "unknown container: got %+v", got)
	check.Equal(t, len(got.Lines), 1)
}

// TestPipeInsteadOfTheLog: if a process replaces its log by a pipe, its output is still
// read, without a delay.
func TestPipeInsteadOfTheLog(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.mustRun(h.Addr, wish{Stdout: "one\n", Pipe: f.find(h.ID).logPath()})
	got := f.Logs(t.Context(), h.ID, request())
	check.Equal(t, len(got.Lines), 1)
	check.That(t, !got.Incomplete, "got %+v", got)
}

// TestLogLargerThanItsFiles: of a log that is rotated four times before it is first
// read, the file that was open, the two newest older ones and the present one are read. The
// file between them is deleted, and the result says that lines are missing.
func TestLogLargerThanItsFiles(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	c := f.find(h.ID)
	for _, line := range []string{"first\n", "deleted\n", "older\n", "old\n"} {
		_, _ = c.streams[0].Write([]byte(line))
		check.NoError(t, c.output.Rotate())
	}
	f.mustRun(h.Addr, wish{Stdout: "last\n"})
	got := f.Logs(t.Context(), h.ID, request())
	check.Equal(check.Must(t), len(got.Lines), 5, "%q", got.Lines)
	for i, text := range []string{"first", "older", "old", "last"} {
		check.That(t, strings.HasSuffix(got.Lines[i], " stdout: "+text), "line %d: got %q", i, got.Lines)
	}
	check.That(t, got.Incomplete, "got %+v", got)
}
