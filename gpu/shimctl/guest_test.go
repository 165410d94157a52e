package shimctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

const (
	mib = 1 << 20
	// hang ends a test that would wait for ever, also on a machine that has
	// much else to do.
	hang = 2 * time.Minute
)

// shimDir is where the real shim, the fake driver and the program that runs
// under them lie, which "make shim-fake" builds. What is older than its source
// is not tested.
func shimDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../build/shim")
	if err != nil {
		t.Fatal(err)
	}
	lack := ""
	for _, file := range []string{"libgpuwhisk.so", "guest", "fake12/libcuda.so.1"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			lack = err.Error()
		}
	}
	if lack == "" && stale() {
		lack = "build/shim is older than its source"
	}
	switch {
	case lack == "":
	case os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1":
		t.Fatalf("%s: run make shim-fake", lack)
	default:
		t.Skipf("%s: run make shim-fake", lack)
	}
	return dir
}

// stale asks make, where there is one, whether there is anything to build.
var stale = sync.OnceValue(func() bool {
	var code *exec.ExitError
	err := exec.Command("make", "-q", "-C", "../../shim", "fake").Run()
	return errors.As(err, &code) && code.ExitCode() == 1
})

// guest is a program on the fake GPU, under the real shim.
type guest struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startGuest starts one in a container; env adds to its environment.
func startGuest(t testing.TB, c *Container, env ...string) *guest {
	t.Helper()
	return startProgram(t, c, filepath.Join(shimDir(t), "guest"), env...)
}

// startProgram starts any program that answers a line with a number, with
// arguments or, if the first is a NAME=VALUE, with an environment.
func startProgram(t testing.TB, c *Container, path string, rest ...string) *guest {
	t.Helper()
	dir := shimDir(t)
	args, env := rest, []string(nil)
	if len(rest) > 0 && strings.Contains(rest[0], "=") {
		args, env = nil, rest
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append([]string{
		"LD_PRELOAD=" + filepath.Join(dir, "libgpuwhisk.so"),
		"LD_LIBRARY_PATH=" + filepath.Join(dir, "fake12"),
		"GPUWHISK_SHIM_SOCKET=" + c.Socket(),
	}, env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &guest{t, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(g.kill)
	g.answer("start")
	return g
}

func (g *guest) pid() int { return g.cmd.Process.Pid }

func (g *guest) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// do has the guest carry out a line and returns its answer.
func (g *guest) do(format string, args ...any) int64 {
	g.t.Helper()
	line := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(g.in, line); err != nil {
		g.t.Fatalf("%s: %v", line, err)
	}
	return g.answer(line)
}

func (g *guest) answer(to string) int64 {
	g.t.Helper()
	if !g.out.Scan() {
		g.t.Fatalf("%s: the guest ended: %v", to, g.out.Err())
	}
	n, err := strconv.ParseInt(strings.TrimSpace(g.out.Text()), 10, 64)
	if err != nil {
		g.t.Fatalf("%s: %v", to, err)
	}
	return n
}

// event is one call of Events.
type event struct {
	container string
	pid       int
	usage     *gpu.Usage
	exited    bool
	silent    *bool
}

// recorder hands events on to a test.
type recorder struct{ ch chan event }

func newRecorder() recorder { return recorder{make(chan event, 1<<16)} }

func (r recorder) put(e event) {
	select {
	case r.ch <- e:
	default: // a flood that no test reads
	}
}

func (r recorder) Usage(c string, pid int, u gpu.Usage) {
	r.put(event{container: c, pid: pid, usage: &u})
}
func (r recorder) Exited(c string, pid int) { r.put(event{container: c, pid: pid, exited: true}) }
func (r recorder) Silent(c string, pid int, s bool) {
	r.put(event{container: c, pid: pid, silent: &s})
}

// await returns the first event that is wanted.
func (r recorder) await(t testing.TB, what string, want func(event) bool) event {
	t.Helper()
	limit := time.After(hang)
	for {
		select {
		case e := <-r.ch:
			if want(e) {
				return e
			}
		case <-limit:
			t.Fatalf("no event: %s", what)
		}
	}
}

func (r recorder) awaitUsage(t testing.TB, pid int, allocated int64) gpu.Usage {
	t.Helper()
	e := r.await(t, fmt.Sprintf("usage of %d bytes by %d", allocated, pid), func(e event) bool {
		return e.usage != nil && e.pid == pid && e.usage.Allocated == allocated
	})
	return *e.usage
}

func openControl(t testing.TB, s Settings) (*Control, recorder) {
	t.Helper()
	if s.MaxResident == 0 {
		s.MaxResident = 16 << 30
	}
	rec := newRecorder()
	// A short path: a socket's name has room for 107 bytes.
	dir, err := os.MkdirTemp("", "gw")
	if err != nil {
		t.Fatal(err)
	}
	ctl, err := Open(filepath.Join(dir, "s"), s, rec, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ctl.Close(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return ctl, rec
}

func openContainer(t testing.TB, ctl *Control, id string) *Container {
	t.Helper()
	c, err := ctl.Container(id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// limited is a context that ends a test that hangs.
func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	return ctx
}
