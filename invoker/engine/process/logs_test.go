package process

import (
	"strings"
	"testing"
)

func TestLogs(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.mustRun(h.Addr, wish{Stdout: "one\ntwo", Stderr: "three\n"})
	got := f.Logs(t.Context(), h.ID, request())
	if len(got.Lines) != 3 || got.Incomplete || got.Truncated {
		t.Fatalf("got %+v", got)
	}
	all := strings.Join(got.Lines, "\n")
	for _, want := range []string{" stdout: one", " stdout: two", " stderr: three"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in %q", want, got.Lines)
		}
	}
	f.mustRun(h.Addr, wish{})
	if got := f.Logs(t.Context(), h.ID, request()); len(got.Lines) > 0 || got.Incomplete {
		t.Errorf("second run: got %+v", got)
	}
	if got := f.Logs(t.Context(), "unknown", request()); !got.Incomplete || len(got.Lines) != 1 {
		t.Errorf("unknown container: got %+v", got)
	}
}

// TestPipeInsteadOfTheLog: a process that puts a pipe where its log is has its output
// read all the same, and delays nothing.
func TestPipeInsteadOfTheLog(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.mustRun(h.Addr, wish{Stdout: "one\n", Pipe: f.find(h.ID).logPath()})
	if got := f.Logs(t.Context(), h.ID, request()); len(got.Lines) != 1 || got.Incomplete {
		t.Errorf("got %+v", got)
	}
}

// TestLogLargerThanItsFiles: the beginning of a log that is rotated twice before it is
// first read is read, and that lines are missing is stated.
func TestLogLargerThanItsFiles(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	c := f.find(h.ID)
	for _, line := range []string{"first\n", "lost\n"} {
		c.out.write("stdout", []byte(line))
		if err := c.out.rotate(); err != nil {
			t.Fatal(err)
		}
	}
	f.mustRun(h.Addr, wish{Stdout: "last\n"})
	got := f.Logs(t.Context(), h.ID, request())
	if len(got.Lines) != 3 || !strings.HasSuffix(got.Lines[0], " stdout: first") || !strings.HasSuffix(got.Lines[1], " stdout: last") || !got.Incomplete {
		t.Errorf("got %+v", got)
	}
}
