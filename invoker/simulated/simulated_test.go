package simulated

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

func TestMoveTakesTheLinksTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Mover{Link: gpu.Link{BytesPerSecond: 1e9}}
		began := time.Now()
		var got gpu.Usage
		m.Move(t.Context(), gpu.Device{}, gpu.Order{Kind: gpu.Evict, Bytes: 2e9}, 3e9, func(_ int, u gpu.Usage) { got = u })
		if took := time.Since(began); took != 2*time.Second || got.Allocated != 3e9 || got.Resident != 0 {
			t.Errorf("eviction took %s and left %+v", took, got)
		}
		m.Move(t.Context(), gpu.Device{}, gpu.Order{Kind: gpu.Prefetch, Bytes: 3e9}, 3e9, func(_ int, u gpu.Usage) { got = u })
		if got.Resident != 3e9 {
			t.Errorf("prefetch left %+v", got)
		}
	})
}

func TestMoveEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Mover{Link: gpu.Link{BytesPerSecond: 1}}.Move(ctx, gpu.Device{}, gpu.Order{Bytes: 1 << 40}, 1, func(int, gpu.Usage) {
		t.Error("an interrupted move was reported as done")
	})
}

func TestDevicesAreLabelled(t *testing.T) {
	for i, d := range Devices(2, 16<<30) {
		if d.Index != i || !d.Simulated || d.Validate() != nil {
			t.Errorf("device %+v", d)
		}
	}
}
