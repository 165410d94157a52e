package invoker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// TestRecordSaysWhetherMemoryIsMeasured: what was only reserved is not told as if
// somebody had seen it.
func TestRecordSaysWhetherMemoryIsMeasured(t *testing.T) {
	for _, assumed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.action("f", annotate("true"))
			w.gpu.hold = func(name string, need gpu.Need) {
				w.gpu.hear(gpu.Held{Container: name, Assumed: assumed, Usage: gpu.Usage{Allocated: need.Bytes, Resident: need.Bytes}})
			}
			_, stop := w.start(w.gpuSettings(1))
			for range 2 {
				id := w.invoke("f", nil)
				time.Sleep(time.Second)
				if n := gpuNote(t, w.record(id)); n.MemoryMeasured == assumed {
					t.Errorf("assumed %t: %+v", assumed, n)
				}
			}
			stop()
		})
	}
}
