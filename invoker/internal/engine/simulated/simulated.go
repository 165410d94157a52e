// Package simulated replaces a GPU on hosts without one. It creates devices with a
// memory size, and moves memory by waiting as long as a link of a given bandwidth would
// take. All its results are labelled as simulated. It starts no goroutine.
package simulated

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Devices returns n devices with the given memory in bytes.
func Devices(n int, memory int64) []gpu.Device {
	out := make([]gpu.Device, n)
	for i := range out {
		out[i] = gpu.Device{Index: i, Card: i, Name: "gpu", MemoryBytes: memory, Simulated: true}
	}
	return out
}

// Mover moves memory at the speed of its link. After a run, it assumes that the
// container holds the memory that was reserved for the run, in one process.
type Mover struct {
	link   gpu.TransferModel
	report func(gpu.MemoryReport)

	mu        sync.Mutex
	transfers map[string]transfer // the newest of each container
}

// transfer is an order in progress.
type transfer struct {
	epoch uint64
	ends  time.Time
}

// NewMover returns a mover for a link.
func NewMover(link gpu.TransferModel) *Mover {
	return &Mover{link: link, transfers: map[string]transfer{}}
}

// process is the id of the single process of a simulated container.
const process = 1

// Listen sets the receiver of usage reports.
func (m *Mover) Listen(report func(gpu.MemoryReport)) { m.report = report }

// Prepare returns the device for a container. It adds nothing else.
func (m *Mover) Prepare(_ string, device gpu.Device, _ container.DeviceRequest) (container.GPU, error) {
	return container.GPU{Index: device.Index, Simulated: true}, nil
}

// Forget drops the state of a container.
func (m *Mover) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.transfers, name)
}

// Begin is a no-op.
func (m *Mover) Begin(string, gpu.MemoryRequest) {}

// End reports that the container holds the memory that was reserved for the run, all of
// it on the device. The report is marked as assumed, because nothing is measured.
func (m *Mover) End(_ context.Context, name string, need gpu.MemoryRequest) {
	m.report(gpu.MemoryReport{Container: name, PID: process, Assumed: true, Usage: gpu.Usage{
		Allocated: need.Bytes, Resident: need.Bytes, Context: need.Context,
	}})
}

// Faults returns false: a run without its memory would seem faster than on any GPU.
func (m *Mover) Faults() bool { return false }

// Move blocks for the duration of the transfer, and then reports the memory in its new
// place. If ctx ends, it returns early without a report. The transfer continues if the
// same order is given again, and is abandoned if another order is given.
func (m *Mover) Move(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
	timer := time.NewTimer(time.Until(m.begin(o)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil { // both may have ended at once
		return 0, err
	}
	u := gpu.Usage{Allocated: footprint}
	if o.Kind == gpu.Prefetch {
		u.Resident = footprint
	}
	m.report(gpu.MemoryReport{Container: o.Container, PID: process, Assumed: true, Usage: u})
	return o.Bytes, nil
}

// begin returns the time at which the transfer of an order ends.
func (m *Mover) begin(o gpu.Order) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.transfers[o.Container]
	if !ok || t.epoch != o.Epoch {
		t = transfer{o.Epoch, time.Now().Add(m.link.Transfer(o.Bytes))}
		m.transfers[o.Container] = t
	}
	return t.ends
}
