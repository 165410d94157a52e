package shimctl

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const (
	mib = 1 << 20
	// hang ends a test that would wait for ever, also on a busy
	// machine.
	hang = 2 * time.Minute
)

func shimDir(t testing.TB) string {
	t.Helper()
	return shimtest.Dir(t)
}

// startGuest starts one in a container; env adds to its environment.
func startGuest(t testing.TB, c *Container, env ...string) *shimtest.Guest {
	t.Helper()
	return startProgram(t, c, filepath.Join(shimDir(t), "guest"), env...)
}

// startProgram starts any program that answers a line with a number, with
// arguments or, if the first is a NAME=VALUE, with an environment.
func startProgram(t testing.TB, c *Container, path string, rest ...string) *shimtest.Guest {
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
	return shimtest.Start(t, cmd)
}

// event is one call of Events.
type event struct {
	container string
	pid       int
	usage     *gpu.Usage
	exited    bool
	silent    *bool
	refused   *Refusal
}

// recorder passes events on to a test.
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
func (r recorder) Refused(c string, pid int, why Refusal) {
	r.put(event{container: c, pid: pid, refused: &why})
}
func (r recorder) Exited(c string, pid int) { r.put(event{container: c, pid: pid, exited: true}) }
func (r recorder) Silent(c string, pid int, s bool) {
	r.put(event{container: c, pid: pid, silent: &s})
}

func (r recorder) Wants(string) {}

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
	return openControlLogged(t, s, slog.New(slog.DiscardHandler))
}

func openControlLogged(t testing.TB, s Settings, log *slog.Logger) (*Control, recorder) {
	t.Helper()
	if s.MaxResident == 0 {
		s.MaxResident = 16 << 30
	}
	rec := newRecorder()
	// A short path: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "gw")
	check.NoError(t, err)
	ctl, err := Open(filepath.Join(dir, "s"), s, rec, log)
	check.NoError(t, err)
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
	check.NoError(t, err)
	return c
}

// limited is a context that ends a test that hangs.
func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	return ctx
}
