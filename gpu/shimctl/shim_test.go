package shimctl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// These tests run the real shim over the fake driver in a plain process.

func TestMemoryGoesOutAndComesBack(t *testing.T) {
	ctl, rec := openControl(t, Settings{Context: 7})
	c := openContainer(t, ctl, "a")
	g := startGuest(t, c)
	block := g.Do("alloc %d", 32*mib)
	g.Do("fill %d 1", block)
	u := rec.awaitUsage(t, g.PID(), 32*mib)
	if u.Resident != 32*mib || u.Context != 7 {
		t.Errorf("usage %+v, want all resident and one context", u)
	}

	done, err := c.Evict(limited(t), 1)
	if err != nil || done.Status != OK || done.Moved != 32*mib || done.Resident != 0 || done.Processes != 1 {
		t.Fatalf("evict: %+v, %v", done, err)
	}
	if used := g.Do("used"); used != 0 {
		t.Errorf("%d bytes on the device after the eviction", used)
	}
	// What it reported before may have been reported twice.
	rec.await(t, "usage after the eviction", func(e event) bool {
		return e.usage != nil && e.pid == g.PID() && e.usage.Allocated == 32*mib && e.usage.Resident == 0
	})

	done, err = c.Prefetch(limited(t), 2, 0)
	if err != nil || done.Status != OK || done.Moved != 32*mib || done.Resident != 32*mib {
		t.Fatalf("prefetch: %+v, %v", done, err)
	}
	if used := g.Do("used"); used != 32*mib {
		t.Errorf("%d bytes on the device after the prefetch", used)
	}
	g.Do("check %d 1", block)
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
	if err != nil || done.Processes != 2 || done.Moved != 3*mib {
		t.Errorf("evict: %+v, %v", done, err)
	}
	usage, err := c.Report(limited(t))
	want := map[int]gpu.Usage{
		first.PID():  {Allocated: 1 * mib},
		second.PID(): {Allocated: 2 * mib},
	}
	if err != nil || fmt.Sprint(usage) != fmt.Sprint(want) {
		t.Errorf("report: %v, %v, want %v", usage, err, want)
	}
	first.Kill()
	rec.await(t, "the end of the first", func(e event) bool { return e.exited && e.pid == first.PID() })
	if n := c.Processes(); n != 1 {
		t.Errorf("%d processes, want 1", n)
	}
	second.Do("check 0 1")
}

// slow lets a move last: some eight seconds for 64 MiB, in chunks of 4, so that
// what is to happen meanwhile does, on a busy machine too.
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
	if err != nil || done.Status != OK || done.Epoch != 2 {
		t.Errorf("prefetch: %+v, %v", done, err)
	}
	if err := <-evicted; !errors.Is(err, ErrReplaced) {
		t.Errorf("the older order ended with %v", err)
	}
	if _, err := c.Evict(limited(t), 1); !errors.Is(err, ErrReplaced) {
		t.Errorf("an order of an older epoch ended with %v", err)
	}
	if used := g.Do("used"); used != 64*mib {
		t.Errorf("%d bytes on the device", used)
	}
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
	if done := <-evicted; done.Status != Cancelled || done.Moved >= 64*mib {
		t.Errorf("eviction: %+v, want it cancelled", done)
	}
	g.Do("check 0 5")
	c.Running(false)
	if done, err := c.Evict(limited(t), 2); err != nil || done.Status != OK || done.Resident != 0 {
		t.Errorf("eviction after the run: %+v, %v", done, err)
	}
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
	if err := <-ended; err != nil {
		t.Errorf("the order of a killed process ended with %v", err)
	}
	rec.await(t, "the end of the process", func(e event) bool { return e.exited && e.pid == g.PID() })
	// Nothing is left to move, and the container takes a new process.
	if done, err := c.Evict(limited(t), 2); err != nil || done.Processes != 0 {
		t.Errorf("evict without processes: %+v, %v", done, err)
	}
	next := startGuest(t, c)
	next.Do("alloc %d", mib)
	rec.awaitUsage(t, next.PID(), mib)
}

// TestInvokerRestarts: processes that outlive an invoker report to the next.
func TestInvokerRestarts(t *testing.T) {
	dir := t.TempDir()
	rec := newRecorder()
	first, err := Open(dir, Settings{MaxResident: 1 << 30}, rec, discard())
	if err != nil {
		t.Fatal(err)
	}
	c := openContainer(t, first, "wsk0_7_guest_infer")
	g := startGuest(t, c)
	g.Do("alloc %d", 8*mib)
	g.Do("fill 0 3")
	rec.awaitUsage(t, g.PID(), 8*mib)
	if _, err := c.Evict(limited(t), 41); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	rec = newRecorder()
	second, err := Open(dir, Settings{MaxResident: 1 << 30}, rec, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	c = openContainer(t, second, "wsk0_7_guest_infer")
	if u := rec.awaitUsage(t, g.PID(), 8*mib); u.Resident != 0 {
		t.Errorf("usage %+v, want it as the first invoker left it", u)
	}
	if done, err := c.Prefetch(limited(t), 1, 0); err != nil || done.Moved != 8*mib {
		t.Errorf("prefetch by the next invoker: %+v, %v", done, err)
	}
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
	if _, err := c.Report(limited(t)); err != nil {
		t.Fatal(err)
	}
	g.Do("alloc %d", 4*mib)
	if free := g.Do("counts"); free != 4*mib {
		t.Errorf("the guest sees %d of its 4 MiB in use", free)
	}
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
			if done, err := c.Evict(limited(t), 1); err != nil || done.Status != OK {
				t.Errorf("container %d: %+v, %v", i, done, err)
			}
			usage, err := c.Report(limited(t))
			for _, u := range usage {
				if u.Allocated != 10000*4096 {
					t.Errorf("container %d holds %d bytes", i, u.Allocated)
				}
			}
			if err != nil || len(usage) != 1 {
				t.Errorf("container %d: %d reports, %v", i, len(usage), err)
			}
		}()
	}
	wg.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)
	t.Logf("%d KiB for 64 containers", grown>>10)
	if grown > 64<<20 {
		t.Errorf("%d bytes for 64 containers, want less than 64 MB", grown)
	}
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
	if runs := g.Do("run"); runs != 1 {
		t.Fatalf("the first run answers %d", runs)
	}
	rec.awaitUsage(t, g.PID(), 8*mib+8)
	if done, err := c.Evict(limited(t), 1); err != nil || done.Moved != 8*mib+8 || done.Resident != 0 {
		t.Errorf("evict: %+v, %v", done, err)
	}
	if runs := g.Do("run"); runs != 2 {
		t.Errorf("after the eviction the second run answers %d", runs)
	}
	if _, err := c.Evict(limited(t), 2); err != nil {
		t.Error(err)
	}
	if done, err := c.Prefetch(limited(t), 3, 0); err != nil || done.Moved != 8*mib+8 {
		t.Errorf("prefetch: %+v, %v", done, err)
	}
	if runs := g.Do("run"); runs != 3 {
		t.Errorf("after the prefetch the third run answers %d", runs)
	}
}

// BenchmarkRoundTrip measures what an order costs beside its work. The median is
// reported as well, which a busy machine changes less, and the slowest of a hundred.
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
				if err := question.ask(b.Context()); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(from))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}
