package invoker

import (
	"slices"
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
			source := map[bool]string{true: "assumed", false: "measured"}
			_, stop := w.start(w.gpuSettings(1))
			for range 2 {
				id := w.invoke("f", nil)
				time.Sleep(time.Second)
				if n := gpuNote(t, w.record(id)); n.MemoryMeasured == assumed {
					t.Errorf("assumed %t: %+v", assumed, n)
				}
			}
			for source, want := range map[string]bool{source[assumed]: true, source[!assumed]: false} {
				series := `gpuwhisk_gpu_resident_bytes{action="guest/f",namespace="guest",source="` + source + `"} 0`
				if zero := slices.Contains(w.series(), series); zero == want {
					t.Errorf("assumed %t: %s is zero %t, want %t", assumed, source, zero, !want)
				}
			}
			stop()
		})
	}
}
