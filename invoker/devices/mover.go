package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

const (
	// answerTime is how long the end of a run waits for the container to say
	// what it holds. The caller has the result by then, the container waits; a
	// shim needs a tenth of a millisecond.
	answerTime = 100 * time.Millisecond
	// helloTime is how long the end of a container's first run waits for a
	// process to connect at all: its program may have come to use the GPU just
	// now. The caller has the result by then.
	helloTime = time.Second
	// moveTime bounds one order. The largest device is swapped in half of it
	// even by a slow link; a container that is frozen would take for ever.
	moveTime = 30 * time.Second
	// rejoinTime is how long after a restart the processes of a container that was
	// taken over may need to find the socket: they look for it every two seconds, and
	// between two parts of a move that was under way.
	rejoinTime = 15 * time.Second
)

// ErrUndone is the error of an order that ended before it was carried out,
// because a run or a newer order came.
var ErrUndone = errors.New("order was not carried out")

// Options say how containers reach the shim.
type Options struct {
	// Dir is where the sockets lie, a directory for each container. It is
	// made if it does not exist; Sweep empties it of what nobody needs any more.
	Dir string
	// Library is the path of libgpuwhisk.so. Empty means that containers run
	// without it.
	Library string
	// Outspoken has the shim say on a process's stderr, which are the action's
	// logs, why it steps aside.
	Outspoken bool
	// Mounted is true where containers have a file system of their own, into
	// which the socket and a copy of the library are mounted: Dir must have
	// the same path on the containers' host.
	Mounted bool
	// Driver is where processes find the driver: for simulated devices the
	// directory of one that takes the real one's place, for real ones, without
	// Mounted, where the loader has to look beside its own places. Empty for none.
	Driver string
	// Devices are all that containers may be prepared for, Context what a CUDA
	// context takes on them.
	Devices []gpu.Device
	Context int64
	Log     *slog.Logger // nil: silent

	proc string // where processes are; empty: /proc
	// 0: the constants
	moveTime, answerTime, helloTime, rejoinTime time.Duration
}

// Mover keeps the device memory of containers by the shim in their processes.
// It may be used from many goroutines.
type Mover struct {
	options Options
	log     *slog.Logger
	control *shimctl.Control // nil without a library
	hear    func(gpu.Held)
	owners  map[int]string // containers of processes; only look uses it
	// processes asks the engine; nil where all processes are in our name space.
	processes Processes
	build     string         // tells this library from others
	sight     sync.WaitGroup // of WatchSimulated
	blind     func()         // ends it; nil where nobody looks
	tenants   sync.Mutex     // one at a time tells a namespace's containers their parts

	mu       sync.Mutex
	boxes    map[string]*box
	kept     bool            // some containers are left to the next process
	warned   map[string]bool // actions whose containers were found un-hooked
	unhooked uint64
}

// OpenMover makes the directory of the sockets and is ready for containers.
// Close ends it.
func OpenMover(o Options) (*Mover, error) {
	m := &Mover{options: o, log: o.Log, owners: map[int]string{}, boxes: map[string]*box{}, warned: map[string]bool{}}
	m.options.proc = cmp.Or(o.proc, "/proc")
	m.options.moveTime = cmp.Or(o.moveTime, moveTime)
	m.options.answerTime = cmp.Or(o.answerTime, answerTime)
	m.options.helloTime = cmp.Or(o.helloTime, helloTime)
	m.options.rejoinTime = cmp.Or(o.rejoinTime, rejoinTime)
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
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
		m.options.Library, m.build, err = install(o.Library, o.Dir)
		if err == nil {
			err = m.placeDriver()
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

// Listen keeps who is told what containers hold.
func (m *Mover) Listen(hear func(gpu.Held)) { m.hear = hear }

// Faults is true: the driver brings in what a kernel touches.
func (m *Mover) Faults() bool { return true }

// Prepare opens the container's socket and tells what the container needs.
func (m *Mover) Prepare(name string, device gpu.Device, wish container.GPUWish) (container.GPU, error) {
	b := newBox(name, device)
	if wish.NamespaceLimit > 0 {
		b.tenant, b.most = wish.Namespace, wish.NamespaceLimit
	}
	b.limit, b.host, b.memory = wish.Limit, wish.Host, wish.Memory
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
		b.managed = backend(wish.Shim) == activation.ShimManaged
		m.equip(&g, b, wish.Shim)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.boxes[name] = b
	return g, nil
}

// Forget closes the container's socket and removes it.
func (m *Mover) Forget(name string) {
	m.mu.Lock()
	b := m.boxes[name]
	delete(m.boxes, name)
	m.mu.Unlock()
	if b == nil || b.shim == nil {
		return
	}
	if err := b.shim.Close(); err != nil {
		m.log.Warn("close shim socket", "container", name, "error", err)
	}
}

func (m *Mover) box(name string) *box {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boxes[name]
}

// Begin tells the container's processes that a run begins: an eviction that is
// under way ends, and what was moved out comes back with the run. Where nothing
// was, there is nothing to tell, and a warm run is not delayed for it.
func (m *Mover) Begin(name string, need gpu.Need) {
	b := m.box(name)
	if b == nil {
		return
	}
	m.runs(b, 1, need.Bytes)
	if !b.deaf() && b.stirred() {
		b.shim.Running(true)
	}
}

// End tells the container's processes that a run has ended and has them say
// what they hold. One that nobody answers for is taken to hold what was
// reserved.
func (m *Mover) End(ctx context.Context, name string, need gpu.Need) {
	b := m.box(name)
	if b == nil {
		return
	}
	defer m.runs(b, -1, 0)
	switch {
	case b.deaf():
		m.assume(b, need)
	case !m.connected(ctx, b):
		m.noteUnhooked(b)
		m.assume(b, need)
	default:
		m.ended(ctx, b)
	}
}

// ended asks the processes. Nothing is done about who does not answer: what it
// said last counts, and its silence is told by the heartbeat.
func (m *Mover) ended(ctx context.Context, b *box) {
	ctx, cancel := context.WithTimeout(ctx, m.options.answerTime)
	defer cancel()
	if _, err := b.shim.Ended(ctx); err == nil {
		b.stir(false)
	}
}

// Move carries out one order.
func (m *Mover) Move(ctx context.Context, o gpu.Order, _ int64) (int64, error) {
	b := m.box(o.Container)
	if b == nil || b.deaf() {
		return 0, nil // nothing of it can be moved, and the ledger sees that
	}
	ctx, cancel := context.WithTimeout(ctx, m.options.moveTime)
	defer cancel()
	b.stir(true)
	err := b.rejoined(ctx)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", o.Kind, o.Container, err)
	}
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

// judge tells an order that was carried out from one that was not. What the
// driver refused was carried out as far as it goes: what is where, the usage
// says that came before.
func (m *Mover) judge(b *box, o gpu.Order, done shimctl.Done) (int64, error) {
	switch done.Status {
	case shimctl.Cancelled, shimctl.Stale:
		return 0, fmt.Errorf("%s %s: %w: %s", o.Kind, o.Container, ErrUndone, done.Status)
	case shimctl.Failed, shimctl.Partial:
		b.mu.Lock()
		first := !b.complained
		b.complained = true
		b.mu.Unlock()
		if first {
			m.log.Warn("gpu memory could not be moved whole", "container", o.Container, "order", o.Kind.String(),
				"outcome", done.Status.String(), "code", done.Code, "moved", done.Moved, "resident", done.Resident)
		}
	}
	return done.Moved, nil
}

// Stats counts what goes on.
type Stats struct {
	Containers int    // prepared and not forgotten
	Processes  int    // that are connected
	Silent     int    // of them, that do not answer
	Unhooked   uint64 // containers so far whose memory nobody told
}

// Stats returns the counts of this moment.
func (m *Mover) Stats() Stats {
	m.mu.Lock()
	s := Stats{Containers: len(m.boxes), Unhooked: m.unhooked}
	m.mu.Unlock()
	for _, b := range m.all() {
		if b.shim != nil {
			s.Processes += b.shim.Processes()
		}
		s.Silent += b.silent()
	}
	return s
}

// Close ends the talk with all containers and removes the sockets of those that
// were not released, which are gone by now.
func (m *Mover) Close() error {
	if m.control == nil {
		return nil
	}
	if m.blind != nil {
		m.blind()
		m.sight.Wait()
	}
	m.mu.Lock()
	names := make([]string, 0, len(m.boxes))
	for name := range m.boxes {
		names = append(names, name)
	}
	m.mu.Unlock()
	for _, name := range names {
		m.Forget(name)
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
