package shimctl

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// These tests run the real shim over the fake driver in a plain process.

func TestMemoryGoesOutAndComesBack(t *testing.T) {
	for _, backend := range []string{"managed", "vmm"} {
		t.Run(backend, func(t *testing.T) { moveOutAndBack(t, backend) })
	}
}

func moveOutAndBack(t *testing.T, backend string) {
	ctl, rec := openControl(t, Settings{Context: 7})
	c := openContainer(t, ctl, "a")
	g := startGuest(t, c, "GPUWHISK_SHIM="+backend)
	block := g.Do("alloc %d", 32*mib)
	g.Do("fill %d 1", block)
	u := rec.awaitUsage(t, g.PID(), 32*mib)
	check.Equal(t, u.Resident, 32*mib)
	check.Equal(t, u.Context, 7)
	plain := map[string]int64{"vmm": 32 * mib}[backend]
	check.Equal(t, u.Plain, plain)
	check.Equal(t, u.Out, 0)

	done, err := c.Evict(limited(t), 1)
	check.NoError(t, err)
	check.Equal(check.Must(t), done.Status, OK)
	check.Equal(check.Must(t), done.Moved, 32*mib)
	check.Equal(check.Must(t), done.Resident, 0)
	check.Equal(check.Must(t), done.Processes, 1)
	check.Equal(t, g.Do("used"), 0, "bytes on the device after the eviction")
	// Its earlier usage may have been reported twice.
	rec.await(t, "usage after the eviction", func(e event) bool {
		return e.usage != nil && e.pid == g.PID() && e.usage.Allocated == 32*mib && e.usage.Resident == 0 &&
			e.usage.Plain == plain && e.usage.Out == plain
	})

	done, err = c.Prefetch(limited(t), 2, 0)
	check.NoError(t, err)
	check.Equal(check.Must(t), done.Status, OK)
	check.Equal(check.Must(t), done.Moved, 32*mib)
	check.Equal(check.Must(t), done.Resident, 32*mib)
	check.Equal(t, g.Do("used"), 32*mib, "bytes on the device after the prefetch")
	g.Do("check %d 1", block)

	_, err = c.Evict(limited(t), 3)
	check.NoError(t, err)
	c.Running(true)
	g.Do("check %d 1", block) // a run finds its memory, without a prefetch
	check.Equal(t, g.Do("used"), 32*mib, "bytes on the device during the run")
}

func TestProcessesOfAContainerAreSummed(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	first, second := startGuest(t, c), startGuest(t, c)
	for i, g := range []*shimtest.Guest{first, second} {
		g.Do("alloc %d", (i+1)*mib)
		g.Do("fill 0 %d", i)
		rec.awaitUsage(t, g.PID(), int64(i+1)*mib)
	}
	done, err := c.Evict(limited(t), 1)
	check.NoError(t, err)
	check.Equal(t, done.Processes, 2)
	check.Equal(t, done.Moved, 3*mib)
	usage, err := c.Report(limited(t))
	want := map[int]gpu.Usage{
		first.PID():  {Allocated: 1 * mib},
		second.PID(): {Allocated: 2 * mib},
	}
	check.NoError(t, err)
	check.Equal(t, fmt.Sprint(usage), fmt.Sprint(want), "report: %v, %v, want %v", usage, err, want)
	first.Kill()
	rec.await(t, "the end of the first", func(e event) bool { return e.exited && e.pid == first.PID() })
	check.Equal(t, c.Processes(), 1)
	second.Do("check 0 1")
}

// slow makes a move take some eight seconds for 64 MiB, in chunks of 4, so that the test's
// other steps happen meanwhile, on a busy machine too.
func slow() []string {
	return []string{"FAKE_CUDA_BANDWIDTH=8000000", "GPUWHISK_SHIM_CHUNK=4194304"}
}

// underWay returns when a container waits for the answer to an order.
func underWay(c *Container) {
	for under := false; !under; runtime.Gosched() {
		c.mu.Lock()
		under = c.order != nil
		c.mu.Unlock()
	}
}

func TestNewerOrderReplacesOlder(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	g := startGuest(t, c, slow()...)
	g.Do("alloc %d", 64*mib)
	g.Do("fill 0 5")
	rec.awaitUsage(t, g.PID(), 64*mib)

	evicted := make(chan error, 1)
	go func() {
		_, err := c.Evict(context.Background(), 1)
		evicted <- err
	}()
	underWay(c)
	done, err := c.Prefetch(limited(t), 2, 0)
	check.NoError(t, err)
	check.Equal(t, done.Status, OK)
	check.Equal(t, done.Epoch, 2)
	check.ErrorIs(t, check.Receive(t, evicted), ErrReplaced, "the older order ended")
	_, err = c.Evict(limited(t), 1)
	check.ErrorIs(t, err, ErrReplaced, "an order of an older epoch ended")
	check.Equal(t, g.Do("used"), 64*mib, "bytes on the device")
	g.Do("check 0 5")
}

func TestRunBeginEndsAnEviction(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	g := startGuest(t, c, slow()...)
	g.Do("alloc %d", 64*mib)
	g.Do("fill 0 5")
	rec.awaitUsage(t, g.PID(), 64*mib)
	evicted := make(chan Done, 1)
	go func() {
		done, _ := c.Evict(context.Background(), 1)
		evicted <- done
	}()
	underWay(c)
	c.Running(true)
	done := check.Receive(t, evicted)
	check.Equal(t, done.Status, Cancelled)
	check.Less(t, done.Moved, 64*mib)
	g.Do("check 0 5")
	c.Running(false)
	done, err := c.Evict(limited(t), 2)
	check.NoError(t, err, "eviction after the run")
	check.Equal(t, done.Status, OK, "eviction after the run")
	check.Equal(t, done.Resident, 0, "eviction after the run")
}

func TestProcessKilledDuringSwap(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	g := startGuest(t, c, slow()...)
	g.Do("alloc %d", 64*mib)
	g.Do("fill 0 5")
	rec.awaitUsage(t, g.PID(), 64*mib)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Evict(limited(t), 1)
		ended <- err
	}()
	underWay(c)
	g.Kill()
	check.NoError(t, check.Receive(t, ended), "the order of a killed process ended")
	rec.await(t, "the end of the process", func(e event) bool { return e.exited && e.pid == g.PID() })
	// Nothing is left to move, and the container takes a new process.
	done, err := c.Evict(limited(t), 2)
	check.NoError(t, err, "evict without processes")
	check.Equal(t, done.Processes, 0, "evict without processes")
	next := startGuest(t, c)
	next.Do("alloc %d", mib)
	rec.awaitUsage(t, next.PID(), mib)
}

// TestInvokerRestarts: processes that outlive an invoker report to the next.
func TestInvokerRestarts(t *testing.T) {
	dir := t.TempDir()
	rec := newRecorder()
	first, err := Open(dir, Settings{MaxResident: 1 << 30}, rec, discard())
	check.NoError(t, err)
	c := openContainer(t, first, "wsk0_7_guest_infer")
	g := startGuest(t, c)
	g.Do("alloc %d", 8*mib)
	g.Do("fill 0 3")
	rec.awaitUsage(t, g.PID(), 8*mib)
	_, err = c.Evict(limited(t), 41)
	check.NoError(t, err)
	check.NoError(t, first.Close())
	rec = newRecorder()
	second, err := Open(dir, Settings{MaxResident: 1 << 30}, rec, discard())
	check.NoError(t, err)
	defer second.Close()
	c = openContainer(t, second, "wsk0_7_guest_infer")
	check.Equal(t, rec.awaitUsage(t, g.PID(), 8*mib).Resident, 0)
	done, err := c.Prefetch(limited(t), 1, 0)
	check.NoError(t, err, "prefetch by the next invoker")
	check.Equal(t, done.Moved, 8*mib, "prefetch by the next invoker")
	g.Do("check 0 3")
}

// TestLimitHoldsForLaterProcesses uses the driver's own refusal as evidence.
func TestLimitHoldsForLaterProcesses(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	c.Limit(4*mib, 0)
	g := startGuest(t, c)
	rec.awaitUsage(t, g.PID(), 0)
	// It is connected, and reads the limit before this question.
	_, err := c.Report(limited(t))
	check.NoError(t, err)
	g.Do("alloc %d", 4*mib)
	check.Equal(t, g.Do("counts"), 4*mib, "the guest sees")
}

// TestManyContainers: 64 containers with 10,000 live allocations each take
// less than 64 MB here.
func TestManyContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("64 processes take some seconds")
	}
	shimDir(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctl, rec := openControl(t, Settings{})
	var wg sync.WaitGroup
	containers := make([]*Container, 64)
	for i := range containers {
		containers[i] = openContainer(t, ctl, fmt.Sprint("c", i))
		g := startGuest(t, containers[i])
		g.Do("many 10000 4096")
		rec.awaitUsage(t, g.PID(), 10000*4096)
	}
	for i, c := range containers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			done, err := c.Evict(limited(t), 1)
			check.ErrorIs(t, err, nil, "container %d", i)
			check.Equal(t, done.Status, OK, "container %d", i)
			usage, err := c.Report(limited(t))
			for _, u := range usage {
				check.Equal(t, u.Allocated, 10000*4096, "container %d holds", i)
			}
			check.ErrorIs(t, err, nil, "container %d", i)
			check.Equal(t, len(usage), 1, "container %d", i)
		}()
	}
	wg.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)
	t.Logf("%d KiB for 64 containers", grown>>10)
	check.AtMost(t, grown, 64<<20, "bytes for 64 containers")
}

// TestPythonFunction: the example function finds its memory as it left it,
// although it was moved out between two invocations.
func TestPythonFunction(t *testing.T) {
	python := peertest.Tool(t, "python3")
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	g := startProgram(t, c, python, "-B", "-c", `
import sys
sys.path.insert(0, "../../shim/examples")
import gpufunc
print(0, flush=True)
for line in sys.stdin:
    r = gpufunc.main({"bytes": 8 << 20})
    print(r["runs"] if r["intact"] and r["correct"] else -1, flush=True)
`)
	check.Equal(check.Must(t), g.Do("run"), 1, "the first run answers")
	rec.awaitUsage(t, g.PID(), 8*mib+8)
	done, err := c.Evict(limited(t), 1)
	check.NoError(t, err)
	check.Equal(t, done.Moved, 8*mib+8)
	check.Equal(t, done.Resident, 0)
	check.Equal(t, g.Do("run"), 2, "after the eviction the second run answers")
	_, err = c.Evict(limited(t), 2)
	check.NoError(t, err)
	done, err = c.Prefetch(limited(t), 3, 0)
	check.NoError(t, err)
	check.Equal(t, done.Moved, 8*mib+8)
	check.Equal(t, g.Do("run"), 3, "after the prefetch the third run answers")
}

// BenchmarkRoundTrip measures the overhead of an order. It also reports the median, which a
// busy machine changes less, and the slowest of a hundred.
func BenchmarkRoundTrip(b *testing.B) {
	ctl, rec := openControl(b, Settings{})
	c := openContainer(b, ctl, "a")
	g := startGuest(b, c)
	rec.await(b, "the first usage", func(e event) bool { return e.usage != nil && e.pid == g.PID() })
	epoch := uint64(0)
	for _, question := range []struct {
		name string
		ask  func(context.Context) error
	}{
		{"report", func(ctx context.Context) error {
			_, err := c.Report(ctx)
			return err
		}},
		{"evict-nothing", func(ctx context.Context) error {
			epoch++
			_, err := c.Evict(ctx, epoch)
			return err
		}},
	} {
		b.Run(question.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				from := time.Now()
				check.NoError(b, question.ask(b.Context()))
				took = append(took, time.Since(from))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}
