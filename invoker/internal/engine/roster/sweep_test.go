package roster

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestSweeperPauses: a container whose removal is refused is tried ever more seldom, and
// no sooner when another container joins it.
func TestSweeperPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		var wg sync.WaitGroup
		s := newSweeper(func(_ context.Context, id string) error {
			if id == "a" {
				tries.Add(1)
				return errors.New("busy")
			}
			return nil
		}, func(f func()) bool { wg.Go(f); return true })
		ctx, end := context.WithCancel(t.Context())
		s.add(ctx, "a")
		synctest.Wait()
		check.Equal(t, tries.Load(), 0, "tried again at once")
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			s.add(ctx, "b")
		}
		check.AtLeast(t, tries.Load(), 2, "a removal that joined postponed the sweep")
		time.Sleep(time.Hour)
		n := tries.Load()
		check.AtLeast(t, n, 60)
		check.AtMost(t, n, 140)
		before := tries.Load()
		s.wake()
		synctest.Wait()
		check.Equal(t, tries.Load(), before+1, "not tried when the daemon was back")
		end()
		wg.Wait()
		check.That(t, maps.Equal(s.remaining, map[string]bool{"a": true}), "left: %v", s.remaining)
	})
}
