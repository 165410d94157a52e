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
		m := NewMover(gpu.Link{BytesPerSecond: 1e9})
		var got gpu.MemoryReport
		m.Listen(func(h gpu.MemoryReport) { got = h })
		began := time.Now()
		moved, err := m.Move(t.Context(), gpu.Order{Kind: gpu.Evict, Container: "c", Bytes: 2e9}, 3e9)
		if took := time.Since(began); took != 2*time.Second || moved != 2e9 || err != nil {
			t.Errorf("eviction took %s and moved %d: %v", took, moved, err)
		}
		if got.Container != "c" || got.Usage.Allocated != 3e9 || got.Usage.Resident != 0 {
			t.Errorf("eviction left %+v", got)
		}
		if _, err := m.Move(t.Context(), gpu.Order{Kind: gpu.Prefetch, Container: "c", Bytes: 3e9}, 3e9); err != nil || got.Usage.Resident != 3e9 {
			t.Errorf("prefetch left %+v: %v", got, err)
		}
	})
}

// TestMoveGoesOnWhenAskedAgain: a second request for what takes long does not
// start it over.
func TestMoveGoesOnWhenAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMover(gpu.Link{BytesPerSecond: 1e9})
		m.Listen(func(gpu.MemoryReport) {})
		o := gpu.Order{Kind: gpu.Evict, Container: "c", Epoch: 1, Bytes: 10e9}
		began := time.Now()
		for again := 0; ; again++ {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			_, err := m.Move(ctx, o, 10e9)
			cancel()
			if err == nil {
				break
			}
			o.Again = true
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %s", took)
		}
		o.Epoch++ // another order is another transfer
		began = time.Now()
		if _, err := m.Move(t.Context(), o, 10e9); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		m.Forget("c")
	})
}

func TestMoveEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := NewMover(gpu.Link{BytesPerSecond: 1})
	m.Listen(func(gpu.MemoryReport) { t.Error("an interrupted move was reported as done") })
	if _, err := m.Move(ctx, gpu.Order{Bytes: 1 << 40}, 1); err == nil {
		t.Error("an interrupted move has no error")
	}
}

func TestRunLeavesWhatWasReserved(t *testing.T) {
	m := NewMover(gpu.DefaultLink())
	var got gpu.MemoryReport
	m.Listen(func(h gpu.MemoryReport) { got = h })
	m.End(t.Context(), "c", gpu.Need{Bytes: 5, Context: 7})
	want := gpu.Usage{Allocated: 5, Resident: 5, Context: 7}
	if got.Container != "c" || got.Usage != want {
		t.Errorf("a run left %+v, want %+v", got, want)
	}
}

func TestDevicesAreLabelled(t *testing.T) {
	for i, d := range Devices(2, 16<<30) {
		if d.Index != i || !d.Simulated || d.Validate() != nil {
			t.Errorf("device %+v", d)
		}
	}
}
