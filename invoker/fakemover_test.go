package invoker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// fakeMover moves memory as a test tells it to, and records its calls. After a run, a
// container holds the reserved memory in one process.
type fakeMover struct {
	hurried  int // ends of runs that waited for nothing
	faults   bool
	moveTime func() time.Duration
	// move, hold and prepare replace the default behaviour.
	move    func(ctx context.Context, o gpu.Order, footprint int64) (int64, error)
	hold    func(name string, need gpu.MemoryRequest)
	prepare func(name, shim string) error

	report func(gpu.MemoryReport)

	mu    sync.Mutex
	calls []string // in order
	moves []gpu.Order
	shims []string
	open  map[string]int // Begin less End, by container
}

// log adds to the calls.
func (m *fakeMover) log(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, what)
}

// will has orders carried out by f from here on.
func (m *fakeMover) will(f func(ctx context.Context, o gpu.Order, footprint int64) (int64, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move = f
}

func (m *fakeMover) orders() []gpu.Order {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.moves)
}

func (m *fakeMover) Listen(report func(gpu.MemoryReport)) { m.report = report }
func (m *fakeMover) Faults() bool                         { return m.faults }
func (m *fakeMover) Forget(string)                        {}

func (m *fakeMover) Prepare(name string, device gpu.Device, wish container.DeviceRequest) (container.GPU, error) {
	shim := wish.Shim
	m.mu.Lock()
	m.shims = append(m.shims, shim)
	m.mu.Unlock()
	if m.prepare != nil {
		if err := m.prepare(name, shim); err != nil {
			return container.GPU{}, err
		}
	}
	return container.GPU{Index: device.Index, Device: device.UUID, Simulated: device.Simulated, Env: []string{"LD_PRELOAD=/shim.so"}}, nil
}

func (m *fakeMover) Begin(name string, _ gpu.MemoryRequest) {
	m.log("begin")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = map[string]int{}
	}
	m.open[name]++
}

func (m *fakeMover) End(ctx context.Context, name string, need gpu.MemoryRequest) {
	m.log("end")
	m.mu.Lock()
	m.open[name]--
	if ctx.Err() != nil {
		m.hurried++
	}
	m.mu.Unlock()
	if m.hold != nil {
		m.hold(name, need)
		return
	}
	m.holds(name, need.Bytes, need.Bytes, need.Context)
}

// holds reports the memory of a container's only process.
func (m *fakeMover) holds(name string, allocated, resident, context int64) {
	m.report(gpu.MemoryReport{Container: name, PID: 1, Usage: gpu.Usage{Allocated: allocated, Resident: resident, Context: context}})
}

func (m *fakeMover) Move(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
	m.mu.Lock()
	m.moves = append(m.moves, o)
	move := m.move
	m.mu.Unlock()
	if move != nil {
		return move(ctx, o, footprint)
	}
	return m.carryOut(ctx, o, footprint)
}

// carryOut carries an order out, in the time that the test gives it.
func (m *fakeMover) carryOut(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
	if m.moveTime != nil {
		select {
		case <-time.After(m.moveTime()):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	resident := int64(0)
	if o.Kind == gpu.Prefetch {
		resident = footprint
	}
	m.holds(o.Container, footprint, resident, 0)
	return o.Bytes, nil
}
