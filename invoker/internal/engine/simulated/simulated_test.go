package simulated

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestMoveTakesTheLinksTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMover(gpu.TransferModel{BytesPerSecond: 1e9})
		var got gpu.MemoryReport
		m.Listen(func(h gpu.MemoryReport) { got = h })
		began := time.Now()
		moved, err := m.Move(t.Context(), gpu.Order{Kind: gpu.Evict, Container: "c", Bytes: 2e9}, 3e9)
		check.Equal(t, time.Since(began), 2*time.Second)
		check.Equal(t, moved, 2e9)
		check.NoError(t, err)
		check.Equal(t, got.Container, "c")
		check.Equal(t, got.Usage.Allocated, 3e9)
		check.Equal(t, got.Usage.Resident, 0)
		_, err = m.Move(t.Context(), gpu.Order{Kind: gpu.Prefetch, Container: "c", Bytes: 3e9}, 3e9)
		check.NoError(t, err)
		check.Equal(t, got.Usage.Resident, 3e9)
		check.That(t, got.Assumed, "assumed memory is reported as measured")
	})
}

// TestMoveGoesOnWhenAskedAgain: a second request for a long transfer does not restart
// it.
func TestMoveGoesOnWhenAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMover(gpu.TransferModel{BytesPerSecond: 1e9})
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
		check.Equal(t, time.Since(began), 10*time.Second)
		o.Epoch++ // another order is another transfer
		began = time.Now()
		_, err := m.Move(t.Context(), o, 10e9)
		check.NoError(t, err)
		check.Equal(t, time.Since(began), 10*time.Second)
		m.Forget("c")
	})
}

func TestMoveEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := NewMover(gpu.TransferModel{BytesPerSecond: 1})
	m.Listen(func(gpu.MemoryReport) { t.Error("an interrupted move was reported as done") })
	_, err := m.Move(ctx, gpu.Order{Bytes: 1 << 40}, 1)
	check.That(t, err != nil, "an interrupted move has no error")
}

func TestRunLeavesWhatWasReserved(t *testing.T) {
	m := NewMover(gpu.DefaultTransferModel())
	var got gpu.MemoryReport
	m.Listen(func(h gpu.MemoryReport) { got = h })
	m.End(t.Context(), "c", gpu.MemoryRequest{Bytes: 5, Context: 7})
	want := gpu.Usage{Allocated: 5, Resident: 5, Context: 7}
	check.Equal(t, got.Container, "c", "a run left")
	check.Equal(t, got.Usage, want, "a run left")
	check.That(t, got.Assumed, "assumed memory is reported as measured")
}

func TestDevicesAreLabelled(t *testing.T) {
	devices := Devices(2, 16<<30)
	check.Equal(t, len(devices), 2)
	for i, d := range devices {
		check.Equal(t, d.Index, i)
		check.That(check.Must(t), d.Simulated, "device %+v", d)
		check.NoError(t, d.Validate())
	}
}
