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

// TestPipeInsteadOfTheLog: a process that puts a pipe where its log is has its output
// read all the same, and delays nothing.
func TestPipeInsteadOfTheLog(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.mustRun(h.Addr, wish{Stdout: "one\n", Pipe: f.find(h.ID).logPath()})
	got := f.Logs(t.Context(), h.ID, request())
	check.Equal(t, len(got.Lines), 1)
	check.That(t, !got.Incomplete, "got %+v", got)
}

// TestLogLargerThanItsFiles: the beginning of a log that is rotated twice before it is
// first read is read, and that lines are missing is stated.
func TestLogLargerThanItsFiles(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	c := f.find(h.ID)
	for _, line := range []string{"first\n", "lost\n"} {
		c.out.write("stdout", []byte(line))
		check.NoError(t, c.out.rotate())
	}
	f.mustRun(h.Addr, wish{Stdout: "last\n"})
	got := f.Logs(t.Context(), h.ID, request())
	check.Equal(check.Must(t), len(got.Lines), 3)
	check.That(check.Must(t), strings.HasSuffix(got.Lines[0], " stdout: first"), "got %+v", got)
	check.That(check.Must(t), strings.HasSuffix(got.Lines[1], " stdout: last"), "got %+v", got)
	check.That(t, got.Incomplete, "got %+v", got)
}
