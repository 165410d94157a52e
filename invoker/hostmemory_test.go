package invoker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// TestFootprintIsCharged: what is known of a function's device memory counts
// against the host's, from the moment that it is known; of a container that
// says too much no more than is free.
func TestFootprintIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"f", "liar"} {
			w.action(name, annotate(`{"memory":"1 GB"}`))
		}
		w.gpu.faults = true
		holds := map[string]int64{}
		w.gpu.hold = func(name string, _ gpu.Need) {
			for action, bytes := range holds {
				if strings.HasSuffix(name, "_"+action) {
					w.gpu.holds(name, bytes, bytes, 0)
				}
			}
		}
		w.lasting(time.Second)
		s := w.gpuSettings(1)
		s.Pool.MemoryMB = 4 << 10
		iv, stop := w.start(s)
		charged := func(what string, mb int) {
			t.Helper()
			time.Sleep(10 * time.Second)
			if st := w.status(iv); st.Pool.UsedMB != mb {
				t.Errorf("%s: %d MiB of the host are taken, want %d", what, st.Pool.UsedMB, mb)
			}
		}
		holds["f"] = 500<<20 + 1
		w.invoke("f", nil)
		charged("after a run that held 500 MiB and a byte", 256+501)
		holds["f"] = 100 << 20
		w.invoke("f", nil)
		charged("after one that held less", 256+501)
		w.invoke("f", nil)
		w.invoke("f", nil)
		charged("of two containers, one of which has held less", 2*(256+501))
		w.diedC <- "id1"
		w.diedC <- "id2"
		charged("after their end", 0)
		holds["liar"] = 1 << 40
		w.invoke("liar", nil)
		charged("of one that says it holds a terabyte", 4<<10)
		stop()
	})
}

// resizing is an engine whose containers can be given memory.
type resizing struct {
	*world
	mu    sync.Mutex
	tale  []string
	fails int
}

func (r *resizing) Resize(_ context.Context, id container.ID, bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tale = append(r.tale, fmt.Sprint(id, " ", bytes>>20))
	if r.fails--; r.fails >= 0 {
		return errors.New("no cgroup")
	}
	return nil
}

// TestMemoryBeforeSwap: a container may use as much of the host as its device
// memory is large before that is moved there, and is not moved before it may.
func TestMemoryBeforeSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.large("f", "g")
		w.gpu.faults = true
		s := w.gpuSettings(1)
		s.Pool.MemoryMB = 64 << 10
		r := &resizing{world: w, fails: 1}
		w.engine = r
		_, stop := w.start(s)
		w.gpu.will(func(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
			r.mu.Lock()
			r.tale = append(r.tale, o.Kind.String())
			r.mu.Unlock()
			return w.gpu.carryOut(ctx, o, footprint)
		})
		for range 2 {
			for _, name := range []string{"f", "g"} {
				w.invoke(name, nil)
				time.Sleep(time.Minute)
			}
		}
		stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		want := []string{"id1 10496", "id1 10496", "evict", "id2 10496", "evict", "prefetch", "evict", "prefetch"}
		if !slices.Equal(r.tale, want) {
			t.Errorf("it went %q, want %q", r.tale, want)
		}
	})
}
