package devices

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

const mib = 1 << 20

// testTimeout bounds the wait for an event that should come soon.
const testTimeout = 30 * time.Second

func shimDir(t testing.TB) string {
	t.Helper()
	return shimtest.Dir(t)
}

// simulatedDevice is the device that movers of tests serve.
func simulatedDevice() gpu.Device {
	return gpu.Device{Name: "gpu", MemoryBytes: 256 * mib, Simulated: true}
}

// fixture is a mover whose reports are kept.
type fixture struct {
	*Mover
	t       testing.TB
	reports chan gpu.MemoryReport
	log     *safeBuffer
}

func open(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	dir := shimDir(t)
	b := &fixture{t: t, reports: make(chan gpu.MemoryReport, 1<<14), log: &safeBuffer{}}
	short, err := os.MkdirTemp("", "devices-") // a socket's path is short
	check.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	o := Options{
		Dir: filepath.Join(short, "shim"), Library: filepath.Join(dir, LibraryName), Driver: filepath.Join(dir, "fake12"),
		Devices: []gpu.Device{simulatedDevice()}, Context: mib, Log: slog.New(slog.NewTextHandler(b.log, nil)),
		answerTime: testTimeout, helloTime: testTimeout, confirmTime: testTimeout, // this machine may be busy
	}
	if change != nil {
		change(&o)
	}
	b.Mover, err = OpenMover(o)
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		_, err := os.Stat(o.Dir)
		check.ErrorIs(t, err, os.ErrNotExist, "the socket directory is left")
	})
	b.Listen(func(h gpu.MemoryReport) { b.reports <- h })
	return b
}

// prepare makes a container.
func (b *fixture) prepare(name, word string) container.GPU {
	b.t.Helper()
	g, err := b.Prepare(name, b.options.Devices[0], container.DeviceRequest{Shim: word})
	check.NoError(b.t, err)
	return g
}

// await returns the next report that matches.
func (b *fixture) await(what string, want func(gpu.MemoryReport) bool) gpu.MemoryReport {
	b.t.Helper()
	limit := time.After(testTimeout)
	for {
		select {
		case h := <-b.reports:
			if want(h) {
				return h
			}
		case <-limit:
			b.t.Fatalf("%s: nothing is reported", what)
		}
	}
}

// awaitUsage waits until a process reports that it uses so much.
func (b *fixture) awaitUsage(pid int, allocated int64) gpu.Usage {
	b.t.Helper()
	return b.await(fmt.Sprintf("%d bytes of process %d", allocated, pid), func(h gpu.MemoryReport) bool {
		return h.PID == pid && !h.Exited && h.Usage.Allocated == allocated
	}).Usage
}

// last is the newest report of a process until now.
func (b *fixture) last(pid int) (last gpu.MemoryReport) {
	for {
		select {
		case h := <-b.reports:
			if h.PID == pid {
				last = h
			}
		default:
			return last
		}
	}
}

func (b *fixture) limited() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	b.t.Cleanup(cancel)
	return ctx
}

// guest starts a program on the fake GPU in a container.
func (b *fixture) guest(g container.GPU, env ...string) *shimtest.Guest {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(shimDir(b.t), "guest"))
	cmd.Env = slices.Concat(g.Env, env)
	return shimtest.Start(b.t, cmd)
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
