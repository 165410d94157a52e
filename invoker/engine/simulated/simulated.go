// Package simulated plays the part of a GPU where there is none: it makes
// devices with a memory size and moves their memory by letting the time pass
// that a link of a given bandwidth would take. Whatever comes of it is
// labelled simulated. It owns no goroutine.
package simulated

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// Devices makes n devices of so many bytes each.
func Devices(n int, memory int64) []gpu.Device {
	out := make([]gpu.Device, n)
	for i := range out {
		out[i] = gpu.Device{Index: i, Card: i, Name: "gpu", MemoryBytes: memory, Simulated: true}
	}
	return out
}

// Mover moves memory at the speed of its link. A container is taken to hold
// after a run what was reserved for the run, in one process.
type Mover struct {
	link   gpu.Link
	report func(gpu.MemoryReport)

	mu        sync.Mutex
	transfers map[string]transfer // the newest of each container
}

// transfer is an order that began to be carried out.
type transfer struct {
	epoch uint64
	ends  time.Time
}

// NewMover makes a mover for a link.
func NewMover(link gpu.Link) *Mover { return &Mover{link: link, transfers: map[string]transfer{}} }

// process is the one process that a simulated container is taken to have.
const process = 1

// Listen sets where the usage of containers is reported.
func (m *Mover) Listen(report func(gpu.MemoryReport)) { m.report = report }

// Prepare has nothing to add to a container.
func (m *Mover) Prepare(_ string, device gpu.Device, _ container.DeviceRequest) (container.GPU, error) {
	return container.GPU{Index: device.Index, Simulated: true}, nil
}

// Forget drops what is known of the container.
func (m *Mover) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.transfers, name)
}

// Begin does nothing.
func (m *Mover) Begin(string, gpu.Need) {}

// End reports that the run's container holds the memory that was reserved for the run,
// all of it on the device. Nothing measures that: the report says that it is assumed.
func (m *Mover) End(_ context.Context, name string, need gpu.Need) {
	m.report(gpu.MemoryReport{Container: name, PID: process, Assumed: true, Usage: gpu.Usage{
		Allocated: need.Bytes, Resident: need.Bytes, Context: need.Context,
	}})
}

// Faults is false: a run without its memory would pretend to be faster than
// any GPU.
func (m *Mover) Faults() bool { return false }

// Move waits for as long as the transfer takes and then reports the memory where
// it belongs. It ends early, without a report, with ctx; the transfer goes on
// when the same order is given again, and is void when another one is.
func (m *Mover) Move(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
	timer := time.NewTimer(time.Until(m.begin(o)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil { // also when both came at once
		return 0, err
	}
	u := gpu.Usage{Allocated: footprint}
	if o.Kind == gpu.Prefetch {
		u.Resident = footprint
	}
	m.report(gpu.MemoryReport{Container: o.Container, PID: process, Assumed: true, Usage: u})
	return o.Bytes, nil
}

// begin returns when the transfer of an order ends.
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
