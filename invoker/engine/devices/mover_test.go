package devices

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

const name = "wsk00_7_guest_infer"

// loaded is a container with a process that holds 32 MiB.
func (b *fixture) loaded(env ...string) *shimtest.Guest {
	b.t.Helper()
	g := b.guest(b.prepare(name, "managed"), env...)
	g.Do("alloc %d", 32*mib)
	g.Do("fill 0 1")
	b.awaitUsage(g.PID(), 32*mib)
	return g
}

func evict(epoch uint64) gpu.Order {
	return gpu.Order{Kind: gpu.Evict, Container: name, Epoch: epoch}
}

func prefetch(epoch uint64) gpu.Order {
	return gpu.Order{Kind: gpu.Prefetch, Container: name, Epoch: epoch}
}

func TestOrdersMoveMemory(t *testing.T) {
	b := open(t, nil)
	g := b.loaded()
	if n, err := b.Move(b.limited(), evict(1), 32*mib); n != 32*mib || err != nil {
		t.Fatalf("evict: %d, %v", n, err)
	}
	// What is used afterwards was reported before the order's end.
	if h := b.last(g.PID()); h.Usage != (gpu.Usage{Allocated: 32 * mib, Context: mib}) {
		t.Errorf("after the eviction: %+v", h)
	}
	if n, err := b.Move(b.limited(), prefetch(2), 32*mib); n != 32*mib || err != nil {
		t.Fatalf("prefetch: %d, %v", n, err)
	}
	if h := b.last(g.PID()); h.Usage.Resident != 32*mib {
		t.Errorf("after the prefetch: %+v", h)
	}
	g.Do("check 0 1")
}

// A run brings back what it touches, and its end reports it.
func TestEndReportsUsage(t *testing.T) {
	b := open(t, nil)
	g := b.loaded()
	if _, err := b.Move(b.limited(), evict(1), 0); err != nil {
		t.Fatal(err)
	}
	b.Begin(name, gpu.Need{})
	g.Do("check 0 1")
	g.Do("alloc %d", 8*mib)
	g.Do("fill 1 2")
	b.End(b.limited(), name, gpu.Need{Bytes: 999})
	if h := b.last(g.PID()); h.Usage.Allocated != 40*mib || h.Usage.Resident != 40*mib {
		t.Errorf("after the run: %+v", h)
	}
}

func slow() []string {
	return []string{"FAKE_CUDA_BANDWIDTH=4000000", "GPUWHISK_SHIM_CHUNK=1048576"}
}

// underWay starts an order and waits until the shim has it: then it has reported
// nothing yet, but the next order finds it.
func (b *fixture) underWay(o gpu.Order) <-chan error {
	ended := make(chan error, 1)
	began := make(chan struct{})
	go func() {
		close(began)
		_, err := b.Move(context.Background(), o, 0)
		ended <- err
	}()
	<-began
	return ended
}

func TestNewerOrderReplacesOlder(t *testing.T) {
	b := open(t, nil)
	g := b.loaded(slow()...)
	// Whichever of the two comes first: the older one is not carried out.
	ended := b.underWay(evict(1))
	if _, err := b.Move(b.limited(), prefetch(2), 0); err != nil {
		t.Errorf("the newer order: %v", err)
	}
	if err := <-ended; !errors.Is(err, shimctl.ErrReplaced) {
		t.Errorf("the older order ended with %v", err)
	}
	g.Do("check 0 1")
}

func TestRunEndsEviction(t *testing.T) {
	b := open(t, nil)
	g := b.loaded(slow()...) // the eviction takes eight seconds
	ended := b.underWay(evict(1))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case err := <-ended:
			over = true
			if !errors.Is(err, ErrUndone) {
				t.Errorf("the eviction ended with %v", err)
			}
		case <-tick.C: // the order may not have been there before
			b.Begin(name, gpu.Need{})
		}
	}
	g.Do("check 0 1")
}

// TestOrdersRaceWithRuns gives orders and begins runs all at once: none waits
// for ever, what was in memory is there, and the last report is true.
func TestOrdersRaceWithRuns(t *testing.T) {
	b := open(t, nil)
	g := b.loaded("GPUWHISK_SHIM_CHUNK=1048576")
	var work sync.WaitGroup
	for epoch := uint64(1); epoch <= 30; epoch += 3 {
		for i, o := range []gpu.Order{evict(epoch), evict(epoch + 1), prefetch(epoch + 2)} {
			work.Go(func() {
				_, err := b.Move(b.limited(), o, 32*mib)
				if err != nil && !errors.Is(err, ErrUndone) && !errors.Is(err, shimctl.ErrReplaced) {
					t.Errorf("order %d of epoch %d: %v", i, o.Epoch, err)
				}
			})
		}
		b.Begin(name, gpu.Need{})
		g.Do("check 0 1")
		b.End(b.limited(), name, gpu.Need{})
	}
	work.Wait()
	if _, err := b.Move(b.limited(), evict(100), 32*mib); err != nil {
		t.Fatal(err)
	}
	if h := b.last(g.PID()); h.Usage.Allocated != 32*mib || h.Usage.Resident != 0 {
		t.Errorf("held at the end: %+v", h)
	}
	g.Do("check 0 1")
	b.End(b.limited(), name, gpu.Need{})
	if h := b.last(g.PID()); h.Usage.Resident != 32*mib {
		t.Errorf("held after a last run: %+v", h)
	}
}

// Nothing waits for a frozen container beyond its bound.
func TestFrozenContainer(t *testing.T) {
	b := open(t, func(o *Options) { o.moveTime, o.answerTime = 50*time.Millisecond, 50*time.Millisecond })
	g := b.loaded()
	if err := g.Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Move(b.limited(), evict(1), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an order to a frozen container ended with %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Move(ctx, evict(2), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("an order that is not waited for ended with %v", err)
	}
	b.Begin(name, gpu.Need{})
	b.End(b.limited(), name, gpu.Need{}) // its own bound ends it
	if err := g.Process().Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.options.moveTime = testTimeout
	if _, err := b.Move(b.limited(), evict(3), 0); err != nil {
		t.Errorf("after it was thawed: %v", err)
	}
	if h := b.last(g.PID()); h.Usage.Allocated != 32*mib || h.Usage.Resident != 0 {
		t.Errorf("held after that: %+v", h)
	}
}

func TestRefusalIsReportedOnce(t *testing.T) {
	b := open(t, nil)
	g := b.loaded("FAKE_CUDA_FAIL=cuMemPrefetchAsync_v2:0:2")
	for epoch := range 3 {
		if n, err := b.Move(b.limited(), evict(uint64(epoch+1)), 0); n != 0 || err != nil {
			t.Errorf("evict: %d, %v: what the driver refuses is not asked again at once", n, err)
		}
	}
	if h := b.last(g.PID()); h.Usage.Resident != 32*mib {
		t.Errorf("held after the refusal: %+v", h)
	}
	if n := b.log.count("could not be moved whole"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestKilledProcess(t *testing.T) {
	b := open(t, nil)
	g := b.loaded(slow()...)
	ended := b.underWay(evict(1))
	g.Kill()
	if err := <-ended; err != nil {
		t.Errorf("the order of a killed process ended with %v", err)
	}
	b.await("the end of the process", func(h gpu.MemoryReport) bool { return h.PID == g.PID() && h.Exited })
	if n, err := b.Move(b.limited(), evict(2), 0); n != 0 || err != nil {
		t.Errorf("an order to no container: %d, %v", n, err)
	}
}

// TestUnhooked: a container that does not report by a shim uses what was reserved,
// until one does.
func TestUnhooked(t *testing.T) {
	b := open(t, func(o *Options) { o.helloTime = 50 * time.Millisecond })
	g := b.prepare(name, "managed")
	need := gpu.Need{Bytes: 5 * mib, Context: mib}
	for range 2 { // waited for once, logged once
		b.Begin(name, gpu.Need{})
		b.End(b.limited(), name, need)
		h := b.last(assumedPID)
		if h.Container != name || h.Usage != (gpu.Usage{Allocated: 5 * mib, Resident: 5 * mib, Context: mib}) {
			t.Errorf("held: %+v", h)
		}
	}
	if n, err := b.Move(b.limited(), evict(1), 0); n != 0 || err != nil {
		t.Errorf("evict: %d, %v", n, err)
	}
	other := "wsk00_8_guest_infer"
	b.prepare(other, "managed")
	b.End(b.limited(), other, need)
	if n, s := b.log.count("no process of a GPU container"), b.Stats(); n != 1 || s.Unhooked != 2 || s.Containers != 2 {
		t.Errorf("logged %d times, %+v", n, s)
	}
	late := b.guest(g)
	b.await("the end of what was assumed", func(h gpu.MemoryReport) bool {
		return h.Container == name && h.PID == assumedPID && h.Exited
	})
	late.Do("alloc %d", mib)
	b.End(b.limited(), name, need)
	b.awaitUsage(late.PID(), mib)
}

func TestWordOff(t *testing.T) {
	b := open(t, nil)
	g := b.prepare(name, "off")
	for _, v := range g.Env {
		if strings.HasPrefix(v, "LD_PRELOAD") {
			t.Errorf("environment %q", g.Env)
		}
	}
	if g.SpillMB != 0 {
		t.Errorf("memory that is never moved may spill %d MiB", g.SpillMB)
	}
	x := b.guest(g) // it has the device all the same
	x.Do("alloc %d", mib)
	b.Begin(name, gpu.Need{})
	b.End(b.limited(), name, gpu.Need{Bytes: 7})
	if h := b.last(assumedPID); h.Usage.Resident != 7 {
		t.Errorf("held: %+v", h)
	}
	if n, err := b.Move(b.limited(), evict(1), 0); n != 0 || err != nil {
		t.Errorf("evict: %d, %v", n, err)
	}
	if n := b.log.count("no process of a GPU container"); n != 0 {
		t.Error("an action that wants no shim is called un-hooked")
	}
}

func TestWordCount(t *testing.T) {
	b := open(t, nil)
	g := b.guest(b.prepare(name, "count"))
	g.Do("alloc %d", 4*mib)
	b.End(b.limited(), name, gpu.Need{Bytes: 7})
	if h := b.last(g.PID()); h.Usage.Resident != 4*mib {
		t.Errorf("held: %+v", h)
	}
	if n, err := b.Move(b.limited(), evict(1), 0); n != 0 || err != nil {
		t.Errorf("evict: %d, %v", n, err)
	}
	if h := b.last(g.PID()); h.Usage.Resident != 4*mib {
		t.Errorf("held after the eviction: %+v", h)
	}
}

// Without a library containers run all the same.
func TestWithoutLibrary(t *testing.T) {
	b := open(t, func(o *Options) { o.Library = "" })
	g := b.prepare(name, "managed")
	if len(g.Mounts) > 0 || slices.ContainsFunc(g.Env, func(v string) bool { return strings.HasPrefix(v, "LD_PRELOAD") }) {
		t.Errorf("prepared %+v", g)
	}
	b.Begin(name, gpu.Need{})
	b.End(b.limited(), name, gpu.Need{Bytes: 7})
	if h := b.last(assumedPID); h.Usage.Resident != 7 {
		t.Errorf("held: %+v", h)
	}
	b.Forget(name)
	if s := b.Stats(); s != (Stats{}) {
		t.Errorf("left: %+v", s)
	}
}

// TestMounted: a container with a file system of its own sees its socket and
// the library at fixed places, and nothing of another's.
func TestMounted(t *testing.T) {
	real := gpu.Device{Index: 1, UUID: "GPU-1", MemoryBytes: 4 * mib}
	b := open(t, func(o *Options) { o.Mounted, o.Driver, o.Devices, o.LogToStderr = true, "", []gpu.Device{real}, true })
	g := b.prepare(name, "managed")
	dir := b.container(name).shim.Dir()
	copied := filepath.Join(b.options.Dir, LibraryName)
	want := container.GPU{
		Index: 1, Device: "GPU-1",
		Mounts: []container.Mount{
			{Source: dir, Target: "/run/gpuwhisk"},
			{Source: copied, Target: "/opt/gpuwhisk/libgpuwhisk.so"},
		},
		Env: []string{
			"GPUWHISK_SHIM=managed", "GPUWHISK_SHIM_SOCKET=/run/gpuwhisk/shim.sock",
			"LD_PRELOAD=/opt/gpuwhisk/libgpuwhisk.so", "GPUWHISK_SHIM_LOG=2", "GPUWHISK_SHIM_LIMIT=3145728",
		},
	}
	if g.Index != want.Index || g.Device != want.Device || g.Simulated || g.SpillMB != want.SpillMB || !slices.Equal(g.Env, want.Env) || !slices.Equal(g.Mounts, want.Mounts) {
		t.Errorf("prepared %+v\nwant %+v", g, want)
	}
	if err := CheckLibrary(copied); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("the copy: %v, %v", info, err)
	}
}

// TestPinnedMemory: a container may pin as much host memory as its action may
// have, its processes together, and is ended for more.
func TestPinnedMemory(t *testing.T) {
	b := open(t, nil)
	g, err := b.Prepare(name, simulatedDevice(), container.DeviceRequest{Shim: "managed", Host: 4 * mib})
	if err != nil {
		t.Fatal(err)
	}
	guest := b.guest(g)
	if code := guest.Do("pin %d", 5*mib); code != 2 {
		t.Errorf("5 MiB of 4: the driver answers %d, want out of memory", code)
	}
	if code := guest.Do("pin %d", 3*mib); code != 0 {
		t.Errorf("3 MiB of 4: the driver answers %d", code)
	}
	b.await("what is pinned", func(h gpu.MemoryReport) bool { return h.PID == guest.PID() && h.Usage.Pinned == 3*mib })
	events{b.Mover}.Usage(name, guest.PID()+1, gpu.Usage{Pinned: 2 * mib})
	over := b.await("the report on it", func(h gpu.MemoryReport) bool { return h.Over != "" })
	if !strings.Contains(over.Over, "pinned 5 MB") || !strings.Contains(over.Over, "memory limit of 4 MB") {
		t.Errorf("reported %q", over.Over)
	}
}

// TestSpill: what a container may use of the host's memory for its device's.
func TestSpill(t *testing.T) {
	real, pretended := gpu.Device{MemoryBytes: 64 * mib}, gpu.Device{MemoryBytes: 64 * mib, Simulated: true}
	for _, c := range []struct {
		mounted       bool
		device        gpu.Device
		limit, memory int64
		spill         int
	}{
		{true, real, 0, 0, 0},         // more when it is swapped out
		{true, real, 0, 9 * mib, 9},   // what the action declares
		{true, real, 0, 99 * mib, 64}, // more there is not
		{true, real, 5 * mib, 9 * mib, 5},
		{true, pretended, 0, 9 * mib, 64}, // it is the process's own memory
		{false, real, 0, 9 * mib, 64},     // no cgroup that could be changed
		{false, real, 1, 0, 1},
	} {
		m := &Mover{options: Options{Mounted: c.mounted}}
		if got := m.spill(&gpuContainer{device: c.device, limit: c.limit, memory: c.memory}); got != c.spill {
			t.Errorf("%+v: %d MiB", c, got)
		}
	}
}

func TestRealDeviceOfProcess(t *testing.T) {
	real := gpu.Device{Index: 1, UUID: "MIG-1", MemoryBytes: 4 * mib}
	b := open(t, func(o *Options) { o.Driver, o.Devices = "", []gpu.Device{real} })
	if g := b.prepare(name, "managed"); !slices.Contains(g.Env, "CUDA_VISIBLE_DEVICES=MIG-1") || len(g.Mounts) > 0 {
		t.Errorf("prepared %+v", g)
	}
	b = open(t, func(o *Options) { o.Driver, o.Devices = "/driver/lib", []gpu.Device{real} })
	if g := b.prepare(name, "managed"); !slices.Contains(g.Env, "LD_LIBRARY_PATH=/driver/lib") || slices.Contains(g.Env, "GPUWHISK_SHIM_LOG=2") {
		t.Errorf("prepared %+v", g)
	}
}

// BenchmarkEnd is what the begin and the end of a warm run cost: the container
// reports its usage.
func BenchmarkEnd(b *testing.B) {
	x := open(b, nil)
	x.loaded()
	x.Listen(func(gpu.MemoryReport) {})
	ctx := context.Background()
	for b.Loop() {
		x.Begin(name, gpu.Need{})
		x.End(ctx, name, gpu.Need{})
	}
}
