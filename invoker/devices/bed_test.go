package devices

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

const mib = 1 << 20

// patience is how long a test waits for what should happen soon.
const patience = 30 * time.Second

// shimDir is where the real shim, the fake driver and the program that runs
// under them lie, which "make shim-fake" builds.
func shimDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../build/shim")
	if err != nil {
		t.Fatal(err)
	}
	lack := ""
	for _, file := range []string{LibraryName, "guest", "fake12/libcuda.so.1", "nvml/libnvidia-ml.so.1"} {
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

// simulatedDevice is the one that movers of tests serve.
func simulatedDevice() gpu.Device {
	return gpu.Device{Name: "gpu", MemoryBytes: 256 * mib, Simulated: true}
}

// bed is a mover whose news are kept.
type bed struct {
	*Mover
	t    testing.TB
	news chan gpu.Held
	log  *safeBuffer
}

func open(t testing.TB, change func(*Options)) *bed {
	t.Helper()
	dir := shimDir(t)
	b := &bed{t: t, news: make(chan gpu.Held, 1<<14), log: &safeBuffer{}}
	short, err := os.MkdirTemp("", "devices-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	o := Options{
		Dir: filepath.Join(short, "shim"), Library: filepath.Join(dir, LibraryName), Driver: filepath.Join(dir, "fake12"),
		Devices: []gpu.Device{simulatedDevice()}, Context: mib, Log: slog.New(slog.NewTextHandler(b.log, nil)),
		answerTime: patience, helloTime: patience, // this machine may be busy
	}
	if change != nil {
		change(&o)
	}
	if b.Mover, err = OpenMover(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(o.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket directory is left: %v", err)
		}
	})
	b.Listen(func(h gpu.Held) { b.news <- h })
	return b
}

// prepare makes a container.
func (b *bed) prepare(name, word string) container.GPU {
	b.t.Helper()
	g, err := b.Prepare(name, b.options.Devices[0], word)
	if err != nil {
		b.t.Fatal(err)
	}
	return g
}

// await returns the next news that is wanted.
func (b *bed) await(what string, want func(gpu.Held) bool) gpu.Held {
	b.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case h := <-b.news:
			if want(h) {
				return h
			}
		case <-limit:
			b.t.Fatalf("%s: nothing is heard", what)
		}
	}
}

// awaitHeld waits until a process says that it holds so much.
func (b *bed) awaitHeld(pid int, allocated int64) gpu.Usage {
	b.t.Helper()
	return b.await(fmt.Sprintf("%d bytes of process %d", allocated, pid), func(h gpu.Held) bool {
		return h.PID == pid && !h.Exited && h.Usage.Allocated == allocated
	}).Usage
}

// last is the newest of what was heard of a process until now.
func (b *bed) last(pid int) (last gpu.Held) {
	for {
		select {
		case h := <-b.news:
			if h.PID == pid {
				last = h
			}
		default:
			return last
		}
	}
}

func (b *bed) limited() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// guest is a program on the fake GPU in a container.
type guest struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (b *bed) guest(g container.GPU, env ...string) *guest {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(shimDir(b.t), "guest"))
	cmd.Env = slices.Concat(g.Env, env)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	x := &guest{b.t, cmd, in, bufio.NewScanner(out)}
	b.t.Cleanup(x.kill)
	x.answer("start")
	return x
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

// safeBuffer is a log that many write to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), text)
}
