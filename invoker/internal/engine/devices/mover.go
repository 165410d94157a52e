// Package devices is the GPU side of a host as the invoker needs it: which
// devices there are (found by NVML, or none), the needs of a container on a
// device (the device itself, the shim, its socket), the shims' protocol as the
// invoker's Mover, and reports of devices that are full, busy or lost.
//
// It decides nothing about memory or order: gpu and sched do. gpu/shimctl bounds the
// reports of a container. A container without a shim (a static program, an image without
// glibc, an action that switches it off) counts with its reservation, or with NVML's list,
// until its end.
//
// Goroutines are those of the shimctl.Control and the nvml.Watcher that it
// opens; Close ends them.
package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

const (
	// answerTime is how long the end of a run waits for the container to report
	// its usage. The caller has the result by then, the container waits; a
	// shim needs a tenth of a millisecond.
	answerTime = 100 * time.Millisecond
	// helloTime is how long the end of a container's first run waits for a
	// process to connect at all: its program may have come to use the GPU just
	// now. The caller has the result by then, the token waits. A process that connects
	// later is counted from then on.
	helloTime = 100 * time.Millisecond
	// moveTime bounds one order, beside the time that its bytes take on a slow link. A
	// container that is frozen would take for ever.
	moveTime = 30 * time.Second
	// progressTime is the time between two questions how far an order has come.
	progressTime = time.Second
	// rejoinTime is how long after a restart the processes of an adopted container
	// may need to find the socket: they try it every two seconds, and between two
	// parts of a move that was under way.
	rejoinTime = 15 * time.Second
	// confirmTime is how long a container that wants more memory waits for the others of
	// its namespace, of which one may be in the middle of a move.
	confirmTime = 500 * time.Millisecond
)

// errUndone is the error of an order that ended before it was carried out,
// because a run or a newer order came.
var errUndone = errors.New("order was not carried out")

// Options are how containers reach the shim.
type Options struct {
	// Dir is where the sockets lie, a directory for each container. It is
	// made if it does not exist; Sweep removes leftovers from it.
	Dir string
	// Library is the path of libgpuwhisk.so. Empty means that containers run
	// without it.
	Library string
	// LogToStderr has the shim log on a process's stderr, which are the action's
	// logs, why it steps aside.
	LogToStderr bool
	// Mounted is true where containers have a file system of their own, into
	// which the socket and a copy of the library are mounted: Dir must have
	// the same path on the containers' host.
	Mounted bool
	// Driver is where processes find the driver: for simulated devices the
	// directory of a driver that replaces the real driver, for real ones, without
	// Mounted, which directory the loader has to search beside its own. Empty for none.
	Driver string
	// Devices are all devices that containers may be prepared for. Context is the memory
	// of a CUDA context on a device.
	Devices []gpu.Device
	Context int64
	// Cgroups has the driver limit and count the device memory of the containers' control
	// groups, where NVML can do that.
	Cgroups bool
	Log     *slog.Logger // nil: silent

	proc string // where processes are; empty: /proc
	// 0: the constants
	moveTime, progressTime, answerTime, helloTime, rejoinTime, confirmTime time.Duration
}

// Mover keeps the device memory of containers by the shim in their processes.
// It may be used from many goroutines.
type Mover struct {
	options Options
	log     *slog.Logger
	control *shimctl.Control // nil without a library
	report  func(gpu.MemoryReport)
	owners  map[int]string // containers of processes; only observe uses it
	// processes asks the engine; nil where all processes are in our name space.
	processes   Processes
	build       string         // identifies this library
	cgroups     cgroups        // nil: not used; only observe uses it
	polling     sync.WaitGroup // of WatchSimulated
	stopPolling func()         // nil where nothing is polled

	mu         sync.Mutex
	containers map[string]*gpuContainer
	kept       bool            // some containers are left to the next process
	warned     map[string]bool // actions whose containers were found un-hooked
	unhooked   uint64
}

// OpenMover makes the directory of the sockets and is ready for containers.
// Close ends it.
func OpenMover(o Options) (*Mover, error) {
	m := &Mover{
		options: o, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		owners: map[int]string{}, containers: map[string]*gpuContainer{}, warned: map[string]bool{},
	}
	m.options.proc = cmp.Or(o.proc, "/proc")
	m.options.moveTime = cmp.Or(o.moveTime, moveTime)
	m.options.progressTime = cmp.Or(o.progressTime, progressTime)
	m.options.answerTime = cmp.Or(o.answerTime, answerTime)
	m.options.helloTime = cmp.Or(o.helloTime, helloTime)
	m.options.rejoinTime = cmp.Or(o.rejoinTime, rejoinTime)
	m.options.confirmTime = cmp.Or(o.confirmTime, confirmTime)
	if o.Library == "" {
		return m, nil
	}
	var err error
	m.control, err = shimctl.Open(o.Dir, shimctl.Settings{
		MaxResident: largest(o.Devices), Context: o.Context, Owns: m.owns,
	}, events{m}, m.log)
	if err != nil {
		return nil, fmt.Errorf("open shim sockets in %s: %w", o.Dir, err)
	}
	if o.Mounted {
		m.options.Library = filepath.Join(o.Dir, LibraryName)
		m.build, err = installFile(o.Library, m.options.Library)
		if err == nil {
			err = m.mountDriver()
		}
		if err != nil {
			return nil, errors.Join(err, m.control.Close())
		}
	}
	return m, nil
}

func largest(devices []gpu.Device) int64 {
	most := int64(0)
	for _, d := range devices {
		most = max(most, d.MemoryBytes)
	}
	return most
}

// Listen sets where the usage of containers is reported.
func (m *Mover) Listen(report func(gpu.MemoryReport)) { m.report = report }

// Faults is true: the driver brings in the memory that a kernel touches.
func (m *Mover) Faults() bool { return true }

// Prepare opens the container's socket and returns the needs of the container.
func (m *Mover) Prepare(name string, device gpu.Device, wish container.DeviceRequest) (container.GPU, error) {
	b := newContainer(name, device)
	if wish.NamespaceLimit > 0 {
		b.tenant, b.most = wish.Namespace, wish.NamespaceLimit
	}
	b.limit, b.host, b.memory = min(wish.Limit, maxUsed), wish.Host, wish.Memory
	g := container.GPU{Index: device.Index, Device: device.UUID, Simulated: device.Simulated, Env: m.deviceEnv(device)}
	if err := m.simulate(&g, device); err != nil {
		return container.GPU{}, err
	}
	if m.control != nil {
		var err error
		if b.shim, err = m.control.Container(name); err != nil {
			return container.GPU{}, err
		}
		b.off = wish.Shim == activation.ShimOff
		b.managed = activation.ShimMoves(backend(wish.Shim))
		m.equip(&g, b, wish.Shim)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b.asking = new(sync.Mutex)
	for _, o := range m.containers {
		if o.tenant == b.tenant {
			b.asking = o.asking
		}
	}
	m.containers[name] = b
	return g, nil
}

// Forget closes the container's socket and removes it.
func (m *Mover) Forget(name string) {
	m.mu.Lock()
	b := m.containers[name]
	delete(m.containers, name)
	m.mu.Unlock()
	if b == nil || b.shim == nil {
		return
	}
	if err := b.shim.Close(); err != nil {
		m.log.Warn("close shim socket", "container", name, "error", err)
	}
}

func (m *Mover) container(name string) *gpuContainer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.containers[name]
}

// Begin notifies the container's processes that a run begins: an eviction that is
// under way ends, and memory that was moved out comes back with the run. If no memory
// was moved out it notifies no process, so a warm run is not delayed.
func (m *Mover) Begin(name string, need gpu.MemoryRequest) {
	b := m.container(name)
	if b == nil {
		return
	}
	promised := need.Bytes
	if b.noShim() { // all of its reservation is context, which stays as long as the container
		promised = max(promised, need.Context-m.options.Context)
	}
	m.runs(b, 1, promised)
	m.mu.Lock()
	moved := b.moved
	m.mu.Unlock()
	if moved && !b.noShim() {
		b.shim.Running(true)
	}
}

// End notifies the container's processes that a run has ended and has them report
// their usage. If no process answers, the reservation counts as the container's use. If ctx
// has ended, nobody waits for the report and the container goes.
func (m *Mover) End(ctx context.Context, name string, need gpu.MemoryRequest) {
	b := m.container(name)
	if b == nil {
		return
	}
	defer m.runs(b, -1, 0)
	switch {
	case b.noShim():
		m.assume(b, need)
	case !m.connected(ctx, b):
		if ctx.Err() == nil {
			m.countUnhooked(b)
			m.assume(b, need)
		}
	default:
		m.ended(ctx, b, need)
	}
}

// ended asks the processes. If a process does not answer in time, its last report counts;
// the heartbeat reports its silence. If nothing but the connection was reported so far,
// the reservation counts as the container's use until a report comes.
func (m *Mover) ended(ctx context.Context, b *gpuContainer, need gpu.MemoryRequest) {
	asking, cancel := context.WithTimeout(ctx, m.options.answerTime)
	defer cancel()
	if _, err := b.shim.Ended(asking); err == nil {
		m.setMoved(b, false)
	} else if ctx.Err() == nil && !m.reportsMemory(b) {
		m.assume(b, need)
	}
}

// Move carries out one order.
func (m *Mover) Move(ctx context.Context, o gpu.Order, _ int64) (int64, error) {
	b := m.container(o.Container)
	if b == nil || b.noShim() {
		return 0, nil // its memory cannot be moved, and the ledger counts it so
	}
	ctx, cancel := context.WithTimeout(ctx, m.options.moveTime+gpu.SlowestMove(o.Bytes))
	defer cancel()
	m.setMoved(b, true)
	err := m.rejoined(ctx, b)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", o.Kind, o.Container, err)
	}
	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	asked.Go(func() { m.askProgress(asking, b) })
	defer asked.Wait()
	defer stop()
	var done shimctl.Done
	if o.Kind == gpu.Evict {
		done, err = b.shim.Evict(ctx, o.Epoch)
	} else {
		done, err = b.shim.Prefetch(ctx, o.Epoch, 0)
	}
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", o.Kind, o.Container, err)
	}
	return m.judge(b, o, done)
}

// askProgress has the processes of a container report their usage now and then until ctx
// ends. While memory moves they do not report it by themselves.
func (m *Mover) askProgress(ctx context.Context, b *gpuContainer) {
	for retry.Sleep(ctx, m.options.progressTime) {
		_, _ = b.shim.Report(ctx) // Events.Usage gets the answers
	}
}

// judge returns an error if an order was not carried out. An order that the driver refused was
// carried out as far as it goes: the usage that was reported before is true.
func (m *Mover) judge(b *gpuContainer, o gpu.Order, done shimctl.Done) (int64, error) {
	switch done.Status {
	case shimctl.Cancelled, shimctl.Stale:
		return 0, fmt.Errorf("%s %s: %w: %s", o.Kind, o.Container, errUndone, done.Status)
	case shimctl.Failed, shimctl.Partial:
		m.mu.Lock()
		first := !b.complained
		b.complained = true
		m.mu.Unlock()
		if first {
			m.log.Warn("gpu memory could not be moved whole", "container", o.Container, "order", o.Kind.String(),
				"outcome", done.Status.String(), "code", done.Code, "moved", done.Moved, "resident", done.Resident)
		}
	}
	return done.Moved, nil
}

// Stats are the counts of a moment.
type Stats struct {
	Containers int    // prepared and not forgotten
	Processes  int    // that are connected
	Silent     int    // processes that do not answer
	Unhooked   uint64 // containers so far whose memory was not reported
}

// Stats returns the counts of this moment.
func (m *Mover) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Stats{Containers: len(m.containers), Unhooked: m.unhooked}
	for _, b := range m.containers {
		if b.shim != nil {
			s.Processes += b.shim.Processes()
		}
		for _, silent := range b.reporting {
			if silent {
				s.Silent++
			}
		}
	}
	return s
}

// Pinned returns the host memory that a container has pinned: by its program, and for device
// memory that moves.
func (m *Mover) Pinned(name string) (sum int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.containers[name]
	if b == nil {
		return 0
	}
	for _, u := range b.usage {
		sum += u.Pinned
	}
	if b.shim != nil {
		sum += b.shim.Pinned()
	}
	return sum
}

// Close closes the connections of all containers. It removes the sockets of containers that
// were not released, because these containers are gone by now.
func (m *Mover) Close() error {
	if m.control == nil {
		return nil
	}
	if m.stopPolling != nil {
		m.stopPolling()
		m.polling.Wait()
	}
	for _, b := range m.all() {
		m.Forget(b.name)
	}
	err := m.control.Close()
	if m.kept {
		return err // the next process puts its files over ours
	}
	if m.options.Mounted {
		err = errors.Join(err, os.Remove(m.options.Library))
	}
	err = errors.Join(err, m.clearSimulated())
	_ = os.Remove(m.options.Dir) // if it is empty
	return err
}
