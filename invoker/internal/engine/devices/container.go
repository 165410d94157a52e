package devices

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// gpuContainer is one container.
type gpuContainer struct {
	name    string
	device  gpu.Device
	shim    *shimctl.Container // nil where there is no library
	off     bool               // the action's annotation is shim: off
	managed bool               // its memory can be moved
	limit   int64              // bytes that it may use altogether; 0: none given
	host    int64              // bytes of host memory that it may pin; 0: none given
	memory  int64              // bytes that its action declares; 0: none
	tenant  string             // the namespace whose limit applies; empty: none
	most    int64              // bytes that its namespace may use on the device
	own     int64              // bytes that it may use by its limit, or as its device has them
	asking  *sync.Mutex        // of its namespace: held while a wish for more memory is answered; before Mover.mu

	// The control group that the driver limits, and its limit. Only observe uses them.
	cgroup      string
	cgroupLimit int64

	// Mover.mu guards the rest.
	firstReport  chan struct{}     // closed when the first process reports
	connected    bool              // firstReport is closed
	unhooked     bool              // a run has waited for the first process without one
	assumed      bool              // its reservation counts as its use
	rejoins      time.Time         // an adopted container is waited for until then; zero: it was made here
	moved        bool              // there was an order since the last run's end
	complained   bool              // of an order that was not carried out whole
	usage        map[int]gpu.Usage // reported by processes
	overReported bool              // that it uses too much was reported
	runs         int               // begun and not ended
	ended        int               // of its runs
	promised     int64             // largest reservation of a run
	allowed      int64             // bytes that the last message allowed its processes
	granted      int64             // part of allowed that they may take without a question
	reporting    map[int]bool      // processes that report their usage; true: silent now
	listedOnly   map[int]int64     // bytes of processes that only NVML lists
	beside       map[int]beside    // memory of reporting processes beyond their reports
	listing      map[int]observed  // NVML's last list
	unlisted     lastReadings      // memory that is neither listed nor reported
	beyondLimit  int               // readings in a row
}

// noShim reports whether no shim is loaded into the container's processes.
func (b *gpuContainer) noShim() bool { return b.shim == nil || b.off }

func (m *Mover) setMoved(b *gpuContainer, moved bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b.moved = moved
}

func newContainer(name string, device gpu.Device) *gpuContainer {
	return &gpuContainer{
		name: name, device: device, firstReport: make(chan struct{}),
		reporting: map[int]bool{}, usage: map[int]gpu.Usage{}, listedOnly: map[int]int64{}, beside: map[int]beside{},
	}
}

// assumedPID stands for the processes of a container that cannot be asked.
const assumedPID = 0

// connected reports whether a process of the container has ever connected. After
// the first run it waits: a program may have begun to use the GPU just now, and its
// shim connects a moment later.
func (m *Mover) connected(ctx context.Context, b *gpuContainer) bool {
	m.mu.Lock()
	received, unhooked := b.connected, b.unhooked
	m.mu.Unlock()
	if received || unhooked {
		return received
	}
	ctx, cancel := context.WithTimeout(ctx, m.options.helloTime)
	defer cancel()
	select {
	case <-b.firstReport:
		return true
	case <-ctx.Done():
		return false
	}
}

// reportsMemory reports whether a process of the container has reported memory that it
// uses. Its first report, right after it has connected, is of none.
func (m *Mover) reportsMemory(b *gpuContainer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range b.usage {
		if u.Allocated > 0 {
			return true
		}
	}
	return false
}

// assume counts the reservation as the use of a container whose processes do not report.
// None of this memory can be moved.
func (m *Mover) assume(b *gpuContainer, need gpu.MemoryRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(b.listedOnly) > 0 {
		return // NVML lists its memory
	}
	b.assumed = true
	m.report(gpu.MemoryReport{Container: b.name, PID: assumedPID, Assumed: true, Usage: gpu.Usage{
		Allocated: need.Bytes, Resident: need.Bytes, Context: need.Context,
	}})
}

// known ends an assumption, because the container's usage is reported. The caller holds
// m.mu.
func (m *Mover) known(b *gpuContainer) {
	if b.assumed {
		b.assumed = false
		m.report(gpu.MemoryReport{Container: b.name, PID: assumedPID, Exited: true})
	}
}

// countUnhooked counts a container whose processes did not connect, and warns
// once for each action.
func (m *Mover) countUnhooked(b *gpuContainer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.unhooked {
		return
	}
	b.unhooked = true
	action := actionOf(b.name)
	m.unhooked++
	if m.warned[action] {
		return
	}
	if len(m.warned) >= maxWarned {
		clear(m.warned)
	}
	m.warned[action] = true
	m.log.Warn("no process of a GPU container is connected by the shim: its memory cannot be moved and counts as reserved",
		"container", b.name,
		"causes", "the function did not use the GPU; its image's proxy drops the container's variables and those of /init (gpuwhisk doctor --image IMAGE tells); "+
			"the program is static, or its image has musl; its library was loaded with RTLD_DEEPBIND, as PHP loads extensions; the shim is of another version",
		"fix", "an action that does without the shim sets the annotation gpu: {\"shim\": \"off\"}")
}

// maxWarned bounds the actions that are stored as warned of.
const maxWarned = 1000

// actionOf is a container's name without the number that distinguishes it from
// others of the same action.
func actionOf(name string) string {
	parts := strings.SplitN(name, "_", 3)
	return parts[len(parts)-1]
}

// events receives the reports of shims.
type events struct{ m *Mover }

// Usage passes on the usage of a process.
func (e events) Usage(name string, pid int, u gpu.Usage) {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	b := e.m.containers[name]
	if b == nil {
		return
	}
	if !b.connected {
		b.connected = true
		close(b.firstReport)
	}
	e.m.known(b)
	delete(b.listedOnly, pid) // the report below takes its place
	before := b.usage[pid]
	b.usage[pid], b.reporting[pid] = u, false
	e.m.uncharge(b, pid, before, u)
	if pid > shimctl.Outside {
		e.m.unseen(b, shimctl.Outside)
	}
	e.m.report(gpu.MemoryReport{Container: name, PID: pid, Usage: u, Over: b.overByReport()})
	e.m.allot(b)
}

// Exited passes on that a process uses nothing any more, nor do its libraries.
func (e events) Exited(name string, pid int) {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	b := e.m.containers[name]
	if b == nil {
		return
	}
	delete(b.reporting, pid)
	delete(b.usage, pid)
	delete(b.beside, pid)
	e.m.report(gpu.MemoryReport{Container: name, PID: pid, Exited: true})
	e.m.unseen(b, hiddenPID(pid))
	e.m.allot(b)
}

// unseen ends the charge for memory that was seen of a process. The caller holds m.mu.
func (m *Mover) unseen(b *gpuContainer, pid int) {
	if _, listed := b.listedOnly[pid]; listed {
		delete(b.listedOnly, pid)
		m.report(gpu.MemoryReport{Container: b.name, PID: pid, Exited: true})
	}
}

// Refused passes on that a container's function does not bear memory that moves.
// If its memory is never moved, only a failure is of interest.
func (e events) Refused(name string, pid int, r shimctl.Refusal) {
	weak := r.Sign == shimctl.RefusedUnmoved
	if b := e.m.container(name); b != nil && (b.managed || weak) {
		e.m.report(gpu.MemoryReport{Container: name, PID: pid, Unfit: r.String(), Weak: weak})
	}
}

// Silent stores that a process does not answer. A frozen container does not.
func (e events) Silent(name string, pid int, silent bool) {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	b := e.m.containers[name]
	if b == nil {
		return
	}
	b.reporting[pid] = silent
	e.m.log.Info("shim of a GPU container", "container", name, "pid", pid, "answers", !silent)
}
