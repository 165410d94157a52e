package docker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// books has the memory that containers hold, by container and process.
type books struct {
	mu    sync.Mutex
	usage map[string]map[int]gpu.Usage
}

func (b *books) report(h gpu.MemoryReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.usage[h.Container] == nil {
		b.usage[h.Container] = map[int]gpu.Usage{}
	}
	b.usage[h.Container][h.PID] = h.Usage
	if h.Exited {
		delete(b.usage[h.Container], h.PID)
	}
}

// of sums up a container.
func (b *books) of(name string) (processes int, sum gpu.Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.usage[name] {
		sum.Allocated += u.Allocated
		sum.Resident += u.Resident
	}
	return len(b.usage[name]), sum
}

// openMover keeps the memory of containers as the invoker does, on a device
// that only the fake driver has.
func openMover(t *testing.T, library string) (*devices.Mover, gpu.Device, *books) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") // short: a socket's path has at most 107 bytes
	check.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	device := gpu.Device{UUID: uuid, MemoryBytes: 16 << 30}
	m, err := devices.OpenMover(devices.Options{
		Dir: filepath.Join(dir, "s"), Library: library, Mounted: true, Devices: []gpu.Device{device},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &books{usage: map[string]map[int]gpu.Usage{}}
	m.Listen(b.report)
	return m, device, b
}

// The invoker's own Mover, the engine and two containers of one image: each
// container's memory is reported as its own, moved as its own, and is whole for its
// next run. A container that is gone holds nothing.
func TestRealMover(t *testing.T) {
	r := startReal(t, nil)
	image := pythonImage(t)
	library, driver := buildShim(t)
	mover, device, books := openMover(t, library)
	code, err := os.ReadFile("../../../../shim/examples/gpufunc.py")
	check.NoError(t, err)
	const size = 8 << 20
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var all []*shimmed
	for i := range 2 {
		spec := r.spec()
		spec.Image = image
		given, err := mover.Prepare(spec.Name, device, container.DeviceRequest{})
		check.NoError(t, err)
		given.Simulated = true // there is no device, only its driver
		given.Env = append(given.Env, "LD_LIBRARY_PATH=/opt/fake")
		given.Mounts = append(given.Mounts, container.Mount{Source: driver, Target: "/opt/fake"})
		spec.GPU = &given
		h, err := r.Create(ctx, spec)
		check.NoError(t, err)
		s := &shimmed{Handle: h, client: proxy.New(h.Addr, 1)}
		t.Cleanup(s.client.Close)
		s.init(t, string(code))
		all = append(all, s)
		moverRun(ctx, t, mover, s, size*int64(i+1))
	}
	for i, s := range all {
		want := size * int64(i+1)
		// On a busy machine the shim may connect later than a run waits for it.
		until(t, fmt.Sprintf("container %d holds %d bytes", i, want), func() bool {
			n, sum := books.of(s.Name)
			return n == 1 && sum.Allocated >= want && sum.Allocated <= want+size/2 && sum.Resident >= want
		})
	}
	first, second := all[0], all[1]
	processesAreListed(ctx, t, r.Engine, first.Name, second.Name)
	moved, err := mover.Move(ctx, gpu.Order{Kind: gpu.Evict, Container: first.Name, Epoch: 1}, 0)
	_, sum := books.of(first.Name)
	check.NoError(t, err)
	check.AtLeast(t, moved, size)
	check.Equal(t, sum.Resident, 0)
	_, sum = books.of(second.Name)
	check.AtLeast(t, sum.Resident, 2*size, "the other container holds")
	moved, err = mover.Move(ctx, gpu.Order{Kind: gpu.Prefetch, Container: first.Name, Epoch: 2}, 0)
	_, sum = books.of(first.Name)
	check.NoError(t, err)
	check.AtLeast(t, moved, size)
	check.AtLeast(t, sum.Resident, size)
	moverRun(ctx, t, mover, first, size)
	check.NoError(t, r.Remove(ctx, second.ID))
	until(t, "the end of the container is noticed", func() bool { n, _ := books.of(second.Name); return n == 0 })
	mover.Forget(second.Name)
	mover.Forget(first.Name)
	s := mover.Stats()
	check.Equal(t, s.Containers, 0, "at the end")
	check.Equal(t, s.Processes, 0, "at the end")
}

// moverRun is one run as a worker does it.
func moverRun(ctx context.Context, t *testing.T, m *devices.Mover, s *shimmed, size int64) {
	t.Helper()
	m.Begin(s.Name, gpu.MemoryRequest{})
	x := s.client.Run(ctx, fmt.Appendf(nil, `{"value":{"bytes":%d}}`, size), testTimeout, proxy.Limit{Max: 1 << 20, Truncation: 1 << 20})
	m.End(ctx, s.Name, gpu.MemoryRequest{Bytes: size})
	got := s.answer(t, x)
	check.That(check.Must(t), got.Intact, "run: %+v", got)
	check.That(check.Must(t), got.Correct, "run: %+v", got)
	check.Equal(check.Must(t), got.Bytes, size)
}

// processesAreListed compares the engine's list of containers' processes with the kernel's
// files, which not every process may read.
func processesAreListed(ctx context.Context, t *testing.T, e *Engine, names ...string) {
	t.Helper()
	seen := map[uint64]bool{}
	for _, name := range names {
		pids, space, err := e.Processes(ctx, name)
		check.NoError(t, err, "processes of %s: %v in %d", name, pids, space)
		check.That(t, len(pids) != 0, "processes of %s: %v in %d, %v", name, pids, space, err)
		check.That(t, !seen[space], "processes of %s: %v in %d, %v", name, pids, space, err)
		seen[space] = true
		for _, pid := range pids {
			link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
			check.NoError(t, err, "process %d is in %s; the engine has %d", pid, link, space)
			check.Equal(t, link, fmt.Sprintf("pid:[%d]", space), "process %d is in %s, %v; the engine has %d", pid, link, err, space)
		}
	}
	_, _, err := e.Processes(ctx, names[0]+"_of_nobody")
	check.That(t, err != nil, "a container that is not there has processes")
}
