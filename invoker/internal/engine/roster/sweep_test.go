package roster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestSweepPauses: a container whose removal is refused is tried ever more seldom, and
// no sooner when another container joins it.
func TestSweepPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		r := New(Options{Log: slog.New(slog.DiscardHandler), Remove: func(_ context.Context, id string) error {
			if id == "a" {
				tries.Add(1)
				return errors.New("busy")
			}
			return nil
		}})
		r.Sweep("a")
		synctest.Wait()
		check.Equal(t, tries.Load(), 0, "tried again at once")
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			r.Sweep("b")
		}
		check.AtLeast(t, tries.Load(), 2, "a removal that joined postponed the sweep")
		time.Sleep(time.Hour)
		n := tries.Load()
		check.AtLeast(t, n, 60)
		check.AtMost(t, n, 140)
		before := tries.Load()
		r.wake()
		synctest.Wait()
		check.Equal(t, tries.Load(), before+1, "not tried when the daemon was back")
		r.Close()
		check.That(t, maps.Equal(r.sweeping, map[string]bool{"a": true}), "left: %v", r.sweeping)
	})
}
