// Package simulated plays the part of a GPU where there is none: it makes
// devices with a memory size and moves their memory by letting the time pass
// that a link of a given bandwidth would take. Whatever comes of it is
// labelled simulated. It owns no goroutine.
package simulated

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// Devices makes n devices of so many bytes each.
func Devices(n int, memory int64) []gpu.Device {
	out := make([]gpu.Device, n)
	for i := range out {
		out[i] = gpu.Device{Index: i, Name: "gpu", MemoryBytes: memory, Simulated: true}
	}
	return out
}

// Mover moves memory at the speed of its link.
type Mover struct{ Link gpu.Link }

// process is the one process that a simulated container is taken to have.
const process = 1

// Move waits for as long as the transfer takes and then reports the memory
// where it belongs. It ends early, without a report, with ctx.
func (m Mover) Move(ctx context.Context, _ gpu.Device, o gpu.Order, footprint int64, report func(pid int, u gpu.Usage)) {
	timer := time.NewTimer(m.Link.Transfer(o.Bytes))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	u := gpu.Usage{Allocated: footprint}
	if o.Kind == gpu.Prefetch {
		u.Resident = footprint
	}
	report(process, u)
}
