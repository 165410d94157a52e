package invoker

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// fallen keeps actions that fell back.
type fallen struct {
	mu    sync.Mutex
	all   map[string]string
	saved int
}

func (f *fallen) Reason(action string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	why, fell := f.all[action]
	return why, fell
}

func (f *fallen) Add(action, why string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.all[action]
	f.all[action] = why
	return !known
}

func (f *fallen) Save() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved++
}

// TestFallsBack: an action whose libraries do not bear moved memory gets no new
// run in its containers, and the next container counts, which its record says.
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
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.action("f", annotate("true"))
			w.action("g", annotate("true"))
			s := w.gpuSettings(1)
			s.GPU.Modes = c.modes
			f := &fallen{all: map[string]string{}}
			s.GPU.Fallbacks = f
			var unfit atomic.Bool
			var name atomic.Value
			w.gpu.prepare = func(of, _ string) error {
				if strings.HasSuffix(of, "_f") {
					name.Store(of)
				}
				return nil
			}
			w.run = func(int, []byte) proxy.Exchange {
				if unfit.CompareAndSwap(true, false) {
					for range 3 {
						w.gpu.hear(gpu.Held{Container: name.Load().(string), PID: 1, Unfit: "it shares its memory"})
					}
				}
				return answer(200, `{}`)
			}
			_, stop := w.start(s)
			w.invoke("f", nil)
			time.Sleep(time.Second)
			w.invoke("g", nil)
			time.Sleep(time.Second)
			unfit.Store(true)
			sign := w.invoke("f", nil)
			time.Sleep(time.Second)
			after := w.invoke("f", nil)
			w.invoke("g", nil)
			time.Sleep(time.Second)
			stop()
			if got := w.gpu.shims; len(got) != len(c.shims) || got[len(got)-1] != c.shims[len(c.shims)-1] {
				t.Errorf("%v: containers with the shim as %v, want %v", c.modes, got, c.shims)
			}
			if n := gpuNote(t, w.record(sign)); n.Fallback != "" {
				t.Errorf("the run that showed it says it ran as %+v", n)
			}
			n := gpuNote(t, w.record(after))
			if c.record != (n.Fallback == "it shares its memory") {
				t.Errorf("%v: the record says %+v", c.modes, n)
			}
			if !n.MemoryMeasured {
				t.Errorf("a process said what it holds, and the record does not: %+v", n)
			}
			if rec := w.record(after); rec.Response.StatusCode != activation.StatusSuccess {
				t.Errorf("the run after it: %+v", rec.Response)
			}
			if why := f.all["guest/f"]; why == "" || f.saved != 1 || len(f.all) != 1 {
				t.Errorf("remembered %v, saved %d times", f.all, f.saved)
			}
		})
	}
}
