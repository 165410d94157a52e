package invoker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// TestFootprintIsCharged: a function's known device memory is charged to the host's memory
// from the moment it is known. A container that reports too much is charged at most the free
// memory.
func TestFootprintIsCharged(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		for _, name := range []string{"f", "liar"} {
			env.action(name, annotate(`{"memory":"1 GB"}`))
		}
		env.gpu.faults = true
		holds := map[string]int64{}
		env.gpu.hold = func(name string, _ gpu.MemoryRequest) {
			for action, bytes := range holds {
				if strings.HasSuffix(name, "_"+action) {
					env.gpu.holds(name, bytes, bytes, 0)
				}
			}
		}
		env.lasting(time.Second)
		s := env.gpuSettings(1)
		s.Pool.MemoryMB = 4 << 10
		iv, stop := env.start(s)
		charged := func(what string, mb int) {
			t.Helper()
			pass(10 * time.Second)
			check.Equal(t, env.status(iv).Pool.UsedMB, mb, "%s", what)
		}
		holds["f"] = 500<<20 + 1
		env.invoke("f", nil)
		charged("after a run that held 500 MiB and a byte", 256+501)
		holds["f"] = 100 << 20
		env.invoke("f", nil)
		charged("after a run that held less", 256+501)
		env.invoke("f", nil)
		env.invoke("f", nil)
		charged("of two containers, one of which has held less", 2*(256+501))
		env.diedC <- "id1"
		env.diedC <- "id2"
		charged("after their end", 0)
		holds["liar"] = 1 << 40
		env.invoke("liar", nil)
		charged("of a container that reports a terabyte", 4<<10)
		stop()
	})
}

// TestIdleContainersMakeWay: a GPU function gets the host memory of idle containers, whatever
// mix of idle containers with and without a GPU, and of prewarmed ones, has it.
func TestIdleContainersMakeWay(t *testing.T) {
	for _, test := range []struct {
		limits []string // of the GPU functions, called one after the other
		stem   int      // prewarmed containers of 256 MiB
	}{
		{[]string{"2 GB", "3 GB"}, 0},
		{[]string{"2 GB", "8 GB"}, 0},
		{[]string{"1 GB", "1 GB", "3 GB"}, 0},
		{[]string{"8 GB"}, 0},
		{[]string{"2 GB", "3 GB"}, 4},
		{[]string{"8 GB"}, 2},
	} {
		t.Run(fmt.Sprint(test.limits, " and ", test.stem, " prewarmed"), func(t *testing.T) {
			withFixture(t, func(t *testing.T, env *fixture) {
				s := env.gpuSettings(1)
				s.Pool.MemoryMB = 4 << 10
				if test.stem > 0 {
					s.Pool.StemCells = []container.StemCell{{Kind: "nodejs:20", MemoryMB: 256, Count: test.stem}}
				}
				_, stop := env.start(s)
				for i := range 6 {
					name := fmt.Sprint("cpu", i)
					env.action(name, nil)
					env.answered(env.invokeAndWait(name, time.Second), 1)
				}
				for i, limit := range test.limits {
					name := fmt.Sprint("gpu", i)
					env.action(name, annotate(`{"limit":"`+limit+`"}`))
					began := time.Now()
					env.answered(env.invoke(name, nil), 1)
					check.AtMost(t, time.Since(began), 2*time.Second, "%s was called", name)
					pass(time.Second)
				}
				stop()
			})
		})
	}
}

// TestLimitBeyondTheDeviceIsCharged: a limit that an action's author makes larger than
// any device counts like one of all of the device.
func TestLimitBeyondTheDeviceIsCharged(t *testing.T) {
	for _, limit := range []string{"16 GB", "100 GB", "9223372036854775807 B"} {
		t.Run(limit, func(t *testing.T) {
			withFixture(t, func(t *testing.T, env *fixture) {
				env.action("f", annotate(`{"limit":"`+limit+`"}`))
				s := env.gpuSettings(1)
				s.Pool.MemoryMB = 64 << 10
				iv, stop := env.start(s)
				env.invoke("f", nil)
				pass(time.Second)
				if st := env.status(iv); st.Pool.UsedMB != 256+16<<10 {
					t.Errorf("%d MiB of the host are taken, want %d", st.Pool.UsedMB, 256+16<<10)
				}
				stop()
			})
		})
	}
}

// resizing is a daemon whose containers can be given memory.
type resizing struct {
	fakeDaemon
	mu    sync.Mutex
	calls []string
	fails int
}

func (r *resizing) Resize(_ context.Context, id container.ID, bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprint(id, " ", bytes>>20))
	if r.fails--; r.fails >= 0 {
		return errors.New("no cgroup")
	}
	return nil
}

// TestMemoryBeforeSwap: a container may use as much of the host as its device
// memory is large before that is moved there, and is not moved before it may.
func TestMemoryBeforeSwap(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f", "g")
		env.gpu.faults = true
		s := env.gpuSettings(1)
		s.Pool.MemoryMB = 64 << 10
		r := &resizing{fails: 1}
		env.daemon = r
		_, stop := env.start(s)
		env.gpu.will(func(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
			r.mu.Lock()
			r.calls = append(r.calls, o.Kind.String())
			r.mu.Unlock()
			return env.gpu.carryOut(ctx, o, footprint)
		})
		for range 2 {
			for _, name := range []string{"f", "g"} {
				env.invokeAndWait(name, time.Minute)
			}
		}
		stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		want := []string{"id1 10496", "id1 10496", "evict", "id2 10496", "evict", "prefetch", "evict", "prefetch"}
		check.EqualSlices(t, r.calls, want, "it went")
	})
}

// fallen keeps actions that fell back.
type fallen struct {
	mu          sync.Mutex
	all         map[string]string
	weak        map[string]bool
	passed, own bool
	saved       int
}

func (f *fallen) Reason(action string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	why, fell := f.all[action]
	return why, fell
}

func (f *fallen) Add(action, why string, weak bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.all[action]
	if known || weak && f.own {
		return false
	}
	f.all[action] = why
	f.weak = map[string]bool{action: weak}
	return true
}

func (f *fallen) Passed(action string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	weak := f.weak[action]
	f.passed = f.passed || weak
	delete(f.weak, action)
	return weak
}

func (f *fallen) Failed(action string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.weak[action] {
		return false
	}
	delete(f.weak, action)
	delete(f.all, action)
	f.own = true
	return true
}

func (f *fallen) Save() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved++
}

// newest is the name of the container that was created last for an action.
func (env *fixture) newest(action string) (name string) {
	env.mu.Lock()
	defer env.mu.Unlock()
	for _, spec := range env.created {
		if strings.HasSuffix(spec.Name, "_"+action) {
			name = spec.Name
		}
	}
	return name
}

// TestProbation: after a container failed before its memory was moved, the next one only
// counts. If that one runs, the function stays so. If it fails in the same way, the next one
// is moved again, and no such failure counts any more.
func TestProbation(t *testing.T) {
	for _, c := range []struct {
		fails []bool // the runs
		shims []string
	}{
		{[]bool{true, false, false}, []string{"managed", "count"}},
		{[]bool{true, true, true, false}, []string{"managed", "count", "managed"}},
		{[]bool{true, false, true, false}, []string{"managed", "count"}},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate("true"))
			s := env.gpuSettings(1)
			f := &fallen{all: map[string]string{}}
			s.GPU.Fallbacks = f
			var fails atomic.Bool
			env.run = func(int, []byte) proxy.Exchange {
				if fails.Load() {
					env.gpu.report(gpu.MemoryReport{Container: env.newest("f"), PID: 1, Unfit: "a kernel failed", Weak: true})
				}
				return answer(200, `{}`)
			}
			_, stop := env.start(s)
			for _, fail := range c.fails {
				fails.Store(fail)
				env.invokeAndWait("f", time.Second)
			}
			stop()
			check.EqualSlices(t, env.gpu.shims, c.shims, "runs that fail %v: containers with the shim", c.fails)
			check.That(t, f.passed != f.own, "runs that fail %v: passed %v, its own %v", c.fails, f.passed, f.own)
		})
	}
}

// TestFallsBack: an action whose libraries do not bear moved memory gets no new
// run in its containers, and the next container counts, which its record shows.
// Where the operator does not allow that, it stays as it is.
func TestFallsBack(t *testing.T) {
	for _, c := range []struct {
		modes  []string
		shims  []string
		record bool
	}{
		{nil, []string{"managed", "managed", "count"}, true},
		{[]string{"managed", "count"}, []string{"managed", "managed", "count"}, true},
		{[]string{"managed"}, []string{"managed", "managed"}, false},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate("true"))
			env.action("g", annotate("true"))
			s := env.gpuSettings(1)
			s.GPU.Modes = c.modes
			f := &fallen{all: map[string]string{}}
			s.GPU.Fallbacks = f
			var unfit atomic.Bool
			env.run = func(int, []byte) proxy.Exchange {
				if unfit.CompareAndSwap(true, false) {
					for range 3 {
						env.gpu.report(gpu.MemoryReport{Container: env.newest("f"), PID: 1, Unfit: "it shares its memory"})
					}
				}
				return answer(200, `{}`)
			}
			_, stop := env.start(s)
			env.invokeAndWait("f", time.Second)
			env.invokeAndWait("g", time.Second)
			unfit.Store(true)
			sign := env.invokeAndWait("f", time.Second)
			after := env.invoke("f", nil)
			env.invokeAndWait("g", time.Second)
			stop()
			got := env.gpu.shims
			check.Equal(check.Must(t), len(got), len(c.shims), "%v: containers with the shim as %v, want %v", c.modes, got, c.shims)
			check.Equal(t, got[len(got)-1], c.shims[len(c.shims)-1], "%v: containers with the shim as %v, want %v", c.modes, got, c.shims)
			check.Equal(t, gpuAnnotation(t, env.record(sign)).Fallback, "", "the record of the run that showed it: it ran")
			n := gpuAnnotation(t, env.record(after))
			check.That(t, c.record == (n.Fallback == "it shares its memory"), "%v: the record has %+v", c.modes, n)
			check.That(t, n.MemoryMeasured, "a process reported its memory, and the record lacks the figure: %+v", n)
			check.Equal(t, env.record(after).Response.StatusCode, activation.StatusSuccess, "the run after it")
			check.That(t, f.all["guest/f"] != "", "remembered %v, saved %d times", f.all, f.saved)
			check.Equal(t, f.saved, 1)
			check.Equal(t, len(f.all), 1)
		})
	}
}
