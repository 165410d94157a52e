package devices

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
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
	n, err := b.Move(b.limited(), evict(1), 32*mib)
	check.Equal(check.Must(t), n, 32*mib)
	check.NoError(t, err)
	// The use afterwards was reported before the order's end.
	check.Equal(t, b.last(g.PID()).Usage, gpu.Usage{Allocated: 32 * mib, Context: mib}, "after the eviction")
	n, err = b.Move(b.limited(), prefetch(2), 32*mib)
	check.Equal(check.Must(t), n, 32*mib)
	check.NoError(t, err)
	check.Equal(t, b.last(g.PID()).Usage.Resident, 32*mib, "after the prefetch")
	g.Do("check 0 1")
}

// A run brings back the memory that it touches, and its end reports the use.
func TestEndReportsUsage(t *testing.T) {
	b := open(t, nil)
	g := b.loaded()
	_, err := b.Move(b.limited(), evict(1), 0)
	check.NoError(t, err)
	b.Begin(name, gpu.MemoryRequest{})
	g.Do("check 0 1")
	g.Do("alloc %d", 8*mib)
	g.Do("fill 1 2")
	b.End(b.limited(), name, gpu.MemoryRequest{Bytes: 999})
	h := b.last(g.PID())
	check.Equal(t, h.Usage.Allocated, 40*mib, "after the run")
	check.Equal(t, h.Usage.Resident, 40*mib, "after the run")
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

// TestMoveReportsItsProgress: while memory moves, its container's usage is reported.
func TestMoveReportsItsProgress(t *testing.T) {
	b := open(t, func(o *Options) { o.progressTime = 10 * time.Millisecond })
	g := b.loaded(slow()...)
	ended := b.underWay(evict(1))
	b.await("memory of which a part has left", func(h gpu.MemoryReport) bool {
		return h.PID == g.PID() && h.Usage.Resident < h.Usage.Allocated && h.Usage.Resident > 0
	})
	b.Begin(name, gpu.MemoryRequest{})
	check.ErrorIs(t, check.Receive(t, ended), errUndone)
}

func TestNewerOrderReplacesOlder(t *testing.T) {
	b := open(t, nil)
	g := b.loaded(slow()...)
	// The older order is not carried out, in either order of arrival.
	ended := b.underWay(evict(1))
	_, err := b.Move(b.limited(), prefetch(2), 0)
	check.NoError(t, err, "the newer order")
	check.ErrorIs(t, check.Receive(t, ended), shimctl.ErrReplaced, "the older order ended")
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
			check.ErrorIs(t, err, errUndone, "the eviction ended")
		case <-tick.C: // the order may not have been there before
			b.Begin(name, gpu.MemoryRequest{})
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
				if err != nil && !errors.Is(err, errUndone) && !errors.Is(err, shimctl.ErrReplaced) {
					t.Errorf("order %d of epoch %d: %v", i, o.Epoch, err)
				}
			})
		}
		b.Begin(name, gpu.MemoryRequest{})
		g.Do("check 0 1")
		b.End(b.limited(), name, gpu.MemoryRequest{})
	}
	work.Wait()
	_, err := b.Move(b.limited(), evict(100), 32*mib)
	check.NoError(t, err)
	h := b.last(g.PID())
	check.Equal(t, h.Usage.Allocated, 32*mib, "held at the end")
	check.Equal(t, h.Usage.Resident, 0, "held at the end")
	g.Do("check 0 1")
	b.End(b.limited(), name, gpu.MemoryRequest{})
	check.Equal(t, b.last(g.PID()).Usage.Resident, 32*mib, "held after a last run")
}

// Nothing waits for a frozen container beyond its bound.
func TestFrozenContainer(t *testing.T) {
	b := open(t, func(o *Options) { o.moveTime, o.answerTime = 50*time.Millisecond, 50*time.Millisecond })
	g := b.loaded()
	check.NoError(t, g.Process().Signal(syscall.SIGSTOP))
	_, err := b.Move(b.limited(), evict(1), 0)
	check.ErrorIs(t, err, context.DeadlineExceeded, "an order to a frozen container ended")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = b.Move(ctx, evict(2), 0)
	check.ErrorIs(t, err, context.Canceled, "an order that is not waited for ended")
	b.Begin(name, gpu.MemoryRequest{})
	b.End(b.limited(), name, gpu.MemoryRequest{}) // its own bound ends it
	check.NoError(t, g.Process().Signal(syscall.SIGCONT))
	b.options.moveTime = testTimeout
	_, err = b.Move(b.limited(), evict(3), 0)
	check.NoError(t, err, "after it was thawed")
	h := b.last(g.PID())
	check.Equal(t, h.Usage.Allocated, 32*mib, "held after that")
	check.Equal(t, h.Usage.Resident, 0, "held after that")
}

func TestRefusalIsReportedOnce(t *testing.T) {
	b := open(t, nil)
	g := b.loaded("FAKE_CUDA_FAIL=cuMemPrefetchAsync_v2:0:2")
	for epoch := range 3 {
		n, err := b.Move(b.limited(), evict(uint64(epoch+1)), 0)
		check.Equal(t, n, 0)
		check.NoError(t, err)
	}
	check.Equal(t, b.last(g.PID()).Usage.Resident, 32*mib, "held after the refusal")
	check.Equal(t, b.log.count("could not be moved whole"), 1)
}

func TestKilledProcess(t *testing.T) {
	b := open(t, nil)
	g := b.loaded(slow()...)
	ended := b.underWay(evict(1))
	g.Kill()
	check.NoError(t, check.Receive(t, ended), "the order of a killed process ended")
	b.await("the end of the process", func(h gpu.MemoryReport) bool { return h.PID == g.PID() && h.Exited })
	n, err := b.Move(b.limited(), evict(2), 0)
	check.Equal(t, n, 0, "an order to no container")
	check.NoError(t, err, "an order to no container")
}

// TestConnectedWithoutAReport: of a process that has connected, and does not answer in time
// what it uses, what was reserved counts, until it answers.
func TestConnectedWithoutAReport(t *testing.T) {
	b := open(t, func(o *Options) { o.answerTime = 50 * time.Millisecond })
	g := b.guest(b.prepare(name, "managed"))
	b.awaitUsage(g.PID(), 0)
	check.NoError(t, g.Process().Signal(syscall.SIGSTOP))
	peertest.Until(t, "every thread of the process is stopped", func() string { return runningThread(g.PID()) })
	need := gpu.MemoryRequest{Bytes: 5 * mib, Context: mib}
	b.Begin(name, need)
	b.End(b.limited(), name, need)
	h := b.last(assumedPID)
	check.That(t, h.Assumed, "got %+v", h)
	check.Equal(t, h.Usage.Resident, 5*mib)
	check.NoError(t, g.Process().Signal(syscall.SIGCONT))
	b.await("the end of the assumed memory", func(h gpu.MemoryReport) bool { return h.PID == assumedPID && h.Exited })
	check.Equal(t, b.Stats().Unhooked, 0)
}

// runningThread names a thread of a process that is not stopped, or returns "".
func runningThread(pid int) string {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, _ := os.ReadFile(thread)
		if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
			return fmt.Sprintf("%s: %s", thread, stat)
		}
	}
	return ""
}

// TestUnhooked: a container that does not report by a shim uses its reservation,
// until one does.
func TestUnhooked(t *testing.T) {
	b := open(t, func(o *Options) { o.helloTime = 50 * time.Millisecond })
	g := b.prepare(name, "managed")
	need := gpu.MemoryRequest{Bytes: 5 * mib, Context: mib}
	for range 2 { // waited for once, logged once
		b.Begin(name, gpu.MemoryRequest{})
		b.End(b.limited(), name, need)
		h := b.last(assumedPID)
		check.Equal(t, h.Container, name)
		check.Equal(t, h.Usage, gpu.Usage{Allocated: 5 * mib, Resident: 5 * mib, Context: mib})
	}
	n, err := b.Move(b.limited(), evict(1), 0)
	check.Equal(t, n, 0)
	check.NoError(t, err)
	other := "wsk00_8_guest_infer"
	b.prepare(other, "managed")
	b.End(b.limited(), other, need)
	check.Equal(t, b.log.count("no process of a GPU container"), 1)
	check.Equal(t, b.Stats().Unhooked, 2)
	check.Equal(t, b.Stats().Containers, 2)
	late := b.guest(g)
	b.await("the end of the assumed memory", func(h gpu.MemoryReport) bool {
		return h.Container == name && h.PID == assumedPID && h.Exited
	})
	late.Do("alloc %d", mib)
	b.End(b.limited(), name, need)
	b.awaitUsage(late.PID(), mib)
}

// TestEndOfAContainerThatGoes: the end of a run whose container is not used again waits for
// no process to connect, and draws no conclusion from that.
func TestEndOfAContainerThatGoes(t *testing.T) {
	b := open(t, func(o *Options) { o.helloTime = time.Hour })
	b.prepare(name, "managed")
	b.Begin(name, gpu.MemoryRequest{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.End(ctx, name, gpu.MemoryRequest{Bytes: mib, Context: mib})
	check.Equal(t, b.Stats().Unhooked, 0)
}

func TestWordOff(t *testing.T) {
	b := open(t, nil)
	g := b.prepare(name, "off")
	for _, v := range g.Env {
		check.That(t, !strings.HasPrefix(v, "LD_PRELOAD"), "environment %q", g.Env)
	}
	check.Equal(t, g.SpillMB, 0, "memory that is never moved may spill")
	x := b.guest(g) // it has the device all the same
	x.Do("alloc %d", mib)
	b.Begin(name, gpu.MemoryRequest{})
	b.End(b.limited(), name, gpu.MemoryRequest{Bytes: 7})
	check.Equal(t, b.last(assumedPID).Usage.Resident, 7)
	n, err := b.Move(b.limited(), evict(1), 0)
	check.Equal(t, n, 0)
	check.NoError(t, err)
	check.Equal(t, b.log.count("no process of a GPU container"), 0, "an action that wants no shim is called un-hooked")
}

func TestWordCount(t *testing.T) {
	b := open(t, nil)
	g := b.guest(b.prepare(name, "count"))
	g.Do("alloc %d", 4*mib)
	b.End(b.limited(), name, gpu.MemoryRequest{Bytes: 7})
	check.Equal(t, b.last(g.PID()).Usage.Resident, 4*mib)
	n, err := b.Move(b.limited(), evict(1), 0)
	check.Equal(t, n, 0)
	check.NoError(t, err)
	check.Equal(t, b.last(g.PID()).Usage.Resident, 4*mib, "held after the eviction")
}

// Without a library containers run all the same.
func TestWithoutLibrary(t *testing.T) {
	b := open(t, func(o *Options) { o.Library = "" })
	g := b.prepare(name, "managed")
	check.Equal(t, len(g.Mounts), 0)
	check.That(t, !slices.ContainsFunc(g.Env, func(v string) bool { return strings.HasPrefix(v, "LD_PRELOAD") }), "prepared %+v", g)
	b.Begin(name, gpu.MemoryRequest{})
	b.End(b.limited(), name, gpu.MemoryRequest{Bytes: 7})
	check.Equal(t, b.last(assumedPID).Usage.Resident, 7)
	b.Forget(name)
	check.Equal(t, b.Stats(), Stats{})
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
	check.Equal(t, g.Index, want.Index, "prepared %+v\nwant %+v", g, want)
	check.Equal(t, g.Device, want.Device, "prepared %+v\nwant %+v", g, want)
	check.That(t, !g.Simulated, "prepared %+v\nwant %+v", g, want)
	check.Equal(t, g.SpillMB, want.SpillMB, "prepared %+v\nwant %+v", g, want)
	check.EqualSlices(t, g.Env, want.Env, "prepared %+v\nwant %+v", g, want)
	check.EqualSlices(t, g.Mounts, want.Mounts, "prepared %+v\nwant %+v", g, want)
	check.NoError(t, CheckLibrary(copied))
	info, err := os.Stat(copied)
	check.NoError(t, err)
	check.Equal(t, info.Mode().Perm(), 0o555)
}

// TestPinnedMemory: a container may pin as much host memory as its action may
// have, its processes together, and is ended for more.
func TestPinnedMemory(t *testing.T) {
	b := open(t, nil)
	g, err := b.Prepare(name, simulatedDevice(), container.DeviceRequest{Shim: "managed", Host: 4 * mib})
	check.NoError(t, err)
	guest := b.guest(g)
	check.Equal(t, guest.Do("pin %d", 5*mib), 2, "5 MiB of 4: the driver answers")
	check.Equal(t, guest.Do("pin %d", 3*mib), 0, "3 MiB of 4: the driver answers")
	b.await("the pinned memory", func(h gpu.MemoryReport) bool { return h.PID == guest.PID() && h.Usage.Pinned == 3*mib })
	check.Equal(t, b.Pinned(name), 3*mib)
	check.Equal(t, b.Pinned("another container"), 0)
	events{b.Mover}.Usage(name, guest.PID()+1, gpu.Usage{Pinned: 2 * mib})
	check.Equal(t, b.Pinned(name), 5*mib)
	over := b.await("the report on it", func(h gpu.MemoryReport) bool { return h.Over != "" })
	check.Contains(t, over.Over, "pinned 5 MB")
	check.Contains(t, over.Over, "memory limit of 4 MB")
}

// TestSpill: the host memory that a container may use for its device memory.
func TestSpill(t *testing.T) {
	real, pretended := gpu.Device{MemoryBytes: 64 * mib}, gpu.Device{MemoryBytes: 64 * mib, Simulated: true}
	for _, c := range []struct {
		mounted       bool
		device        gpu.Device
		limit, memory int64
		spill         int
	}{
		{true, real, 0, 0, 0},         // more when it is swapped out
		{true, real, 0, 9 * mib, 9},   // as the action declares
		{true, real, 0, 99 * mib, 64}, // more there is not
		{true, real, 5 * mib, 9 * mib, 5},
		{true, pretended, 0, 9 * mib, 64}, // it is the process's own memory
		{false, real, 0, 9 * mib, 64},     // no cgroup that could be changed
		{false, real, 1, 0, 1},
	} {
		m := &Mover{options: Options{Mounted: c.mounted}}
		check.Equal(t, m.spill(&gpuContainer{device: c.device, limit: c.limit, memory: c.memory}), c.spill, "%+v", c)
	}
}

func TestRealDeviceOfProcess(t *testing.T) {
	real := gpu.Device{Index: 1, UUID: "MIG-1", MemoryBytes: 4 * mib}
	b := open(t, func(o *Options) { o.Driver, o.Devices = "", []gpu.Device{real} })
	g := b.prepare(name, "managed")
	check.Includes(t, g.Env, "CUDA_VISIBLE_DEVICES=MIG-1")
	check.Equal(t, len(g.Mounts), 0)
	b = open(t, func(o *Options) { o.Driver, o.Devices = "/driver/lib", []gpu.Device{real} })
	g = b.prepare(name, "managed")
	check.Includes(t, g.Env, "LD_LIBRARY_PATH=/driver/lib")
	check.That(t, !slices.Contains(g.Env, "GPUWHISK_SHIM_LOG=2"), "prepared %+v", g)
}

// BenchmarkEnd measures the begin and the end of a warm run: the container
// reports its usage.
func BenchmarkEnd(b *testing.B) {
	x := open(b, nil)
	x.loaded()
	x.Listen(func(gpu.MemoryReport) {})
	ctx := context.Background()
	for b.Loop() {
		x.Begin(name, gpu.MemoryRequest{})
		x.End(ctx, name, gpu.MemoryRequest{})
	}
}
