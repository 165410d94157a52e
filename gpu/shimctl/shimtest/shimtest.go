// Package shimtest is for tests that run programs under the real shim on the
// fake driver: where the build has put them, and a guest, which is a program
// that allocates and moves memory as a test orders. Only tests import it. It
// starts no goroutine; a guest ends with its test.
package shimtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// Dir returns the directory of the shim, the fake driver and the guest, which "make shim-fake"
// builds. If they are missing, the test is skipped, or fails if peers are required. Files that
// are older than their sources are not tested.
func Dir(t testing.TB) string {
	t.Helper()
	dir, lack := filepath.Join(top(), "build", "shim"), ""
	for _, file := range []string{"libgpuwhisk.so", "guest", "fake12/libcuda.so.1", "nvml/libnvidia-ml.so.1"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			lack = err.Error()
		}
	}
	if lack == "" && stale() {
		lack = "build/shim is older than its source"
	}
	if lack != "" {
		peertest.Missing(t, lack+": run make shim-fake")
	}
	return dir
}

// Build makes the shim, the fake driver and management library and the programs of
// the GPU check where they are not up to date, and returns their directory. A test
// is skipped where they cannot be made, or fails where peers must be there.
func Build(t testing.TB) string {
	t.Helper()
	for _, tool := range []string{"make", "cc", "python3"} {
		peertest.Tool(t, tool)
	}
	dir := filepath.Join(top(), "build", "shim")
	if err := build(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// build runs make in one test binary at a time.
func build(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"-s", "-C", filepath.Join(top(), "shim"), "OUT=" + dir, filepath.Join(dir, "libgpuwhisk.so"),
			filepath.Join(dir, "fake12/libcuda.so.1"), filepath.Join(dir, "nvml/libnvidia-ml.so.1")},
		{"-s", "-C", filepath.Join(top(), "shim/check"), "OUT=" + dir},
	} {
		if out, err := exec.Command("make", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("make %v: %w\n%s", args, err, out)
		}
	}
	return nil
}

// top is the module's directory as seen from a test's, however deep that lies.
func top() string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, none := os.Stat(filepath.Join(dir, "go.mod")); none == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// stale asks make, where there is one, whether there is anything to build.
var stale = sync.OnceValue(func() bool {
	var code *exec.ExitError
	err := exec.Command("make", "-q", "-C", filepath.Join(top(), "shim"), "fake").Run()
	return errors.As(err, &code) && code.ExitCode() == 1
})

// Guest is a program on the fake GPU that answers each line with a number.
type Guest struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// Start starts a command as a guest and waits until it answers.
func Start(t testing.TB, cmd *exec.Cmd) *Guest {
	t.Helper()
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
	g := &Guest{t, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(g.Kill)
	g.answer("start")
	return g
}

// PID is the process's number.
func (g *Guest) PID() int { return g.cmd.Process.Pid }

// Process is the process itself.
func (g *Guest) Process() *os.Process { return g.cmd.Process }

// Kill ends the guest, if it has not ended, and waits for its end.
func (g *Guest) Kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// Do has the guest carry out a line and returns its answer.
func (g *Guest) Do(format string, args ...any) int64 {
	g.t.Helper()
	line := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(g.in, line); err != nil {
		g.t.Fatalf("%s: %v", line, err)
	}
	return g.answer(line)
}

func (g *Guest) answer(to string) int64 {
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
