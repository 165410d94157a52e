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
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/proxy"
)

// books is what containers hold, by container and process.
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	device := gpu.Device{UUID: uuid, MemoryBytes: 16 << 30}
	m, err := devices.OpenMover(devices.Options{
		Dir: filepath.Join(dir, "s"), Library: library, Mounted: true, Devices: []gpu.Device{device},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
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
	code, err := os.ReadFile("../../../shim/examples/gpufunc.py")
	if err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var all []*shimmed
	for i := range 2 {
		spec := r.spec()
		spec.Image = image
		given, err := mover.Prepare(spec.Name, device, container.DeviceRequest{})
		if err != nil {
			t.Fatal(err)
		}
		given.Simulated = true // there is no device, only its driver
		given.Env = append(given.Env, "LD_LIBRARY_PATH=/opt/fake")
		given.Mounts = append(given.Mounts, container.Mount{Source: driver, Target: "/opt/fake"})
		spec.GPU = &given
		h, err := r.Create(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
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
	if _, sum := books.of(first.Name); err != nil || moved < size || sum.Resident != 0 {
		t.Errorf("out: %d bytes moved, %+v, %v", moved, sum, err)
	}
	if _, sum := books.of(second.Name); sum.Resident < 2*size {
		t.Errorf("the other container holds %+v", sum)
	}
	moved, err = mover.Move(ctx, gpu.Order{Kind: gpu.Prefetch, Container: first.Name, Epoch: 2}, 0)
	if _, sum := books.of(first.Name); err != nil || moved < size || sum.Resident < size {
		t.Errorf("back: %d bytes moved, %+v, %v", moved, sum, err)
	}
	moverRun(ctx, t, mover, first, size)
	if err := r.Remove(ctx, second.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the container is noticed", func() bool { n, _ := books.of(second.Name); return n == 0 })
	mover.Forget(second.Name)
	mover.Forget(first.Name)
	if s := mover.Stats(); s.Containers != 0 || s.Processes != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

// moverRun is one run as a worker does it.
func moverRun(ctx context.Context, t *testing.T, m *devices.Mover, s *shimmed, size int64) {
	t.Helper()
	m.Begin(s.Name, gpu.Need{})
	x := s.client.Run(ctx, fmt.Appendf(nil, `{"value":{"bytes":%d}}`, size), testTimeout, proxy.Limit{Max: 1 << 20, Truncation: 1 << 20})
	m.End(ctx, s.Name, gpu.Need{Bytes: size})
	got := s.answer(t, x)
	if !got.Intact || !got.Correct || got.Bytes != size {
		t.Fatalf("run: %+v", got)
	}
}

// processesAreListed compares what the engine lists of containers' processes with
// the kernel's files, which not every process may read.
func processesAreListed(ctx context.Context, t *testing.T, e *Engine, names ...string) {
	t.Helper()
	seen := map[uint64]bool{}
	for _, name := range names {
		pids, space, err := e.Processes(ctx, name)
		if err != nil || len(pids) == 0 || seen[space] {
			t.Errorf("processes of %s: %v in %d, %v", name, pids, space, err)
		}
		seen[space] = true
		for _, pid := range pids {
			if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || link != fmt.Sprintf("pid:[%d]", space) {
				t.Errorf("process %d is in %s, %v; the engine has %d", pid, link, err, space)
			}
		}
	}
	if _, _, err := e.Processes(ctx, names[0]+"_of_nobody"); err == nil {
		t.Error("a container that is not there has processes")
	}
}
