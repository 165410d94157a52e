package devices

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// box is one container.
type box struct {
	name   string
	device gpu.Device
	shim   *shimctl.Container // nil where there is no library
	off    bool               // the container wants no shim
	// managed tells that its memory can be moved.
	managed bool
	limit   int64         // bytes that it may hold altogether; 0: no word
	host    int64         // bytes of host memory that it may pin; 0: no word
	memory  int64         // bytes that its action says it holds; 0: no word
	tenant  string        // the namespace whose limit holds for it, empty for none
	most    int64         // bytes that its namespace may hold on the device
	running bool          // what follows to part is guarded by Mover.tenants
	least   int64         // what it was promised for its runs
	held    int64         // what it holds
	part    int64         // what it was told that it may hold
	own     int64         // bytes that it may hold by its limit, or as its device has them
	came    chan struct{} // closed when the first process says something

	mu         sync.Mutex
	heard      bool              // came is closed
	unhooked   bool              // a run has waited for the first process in vain
	assumed    bool              // it is taken to hold what was reserved
	rejoins    time.Time         // until then it may come by itself; zero: it was made here
	moved      bool              // there was an order since the last run's end
	complained bool              // of an order that was not carried out whole
	holds      map[int]gpu.Usage // of processes that talk
	over       bool              // it was told that it holds too much
	runs       int               // begun and not ended
	promised   int64             // the most that was set aside for one of them
	talks      map[int]bool      // processes that say themselves what they hold; true: silent now
	seen       map[int]int64     // bytes of those of which only NVML says it
}

// deaf tells that no shim is loaded into the container's processes.
func (b *box) deaf() bool { return b.shim == nil || b.off }

func (b *box) stir(moved bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved = moved
}

func (b *box) stirred() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moved
}

func newBox(name string, device gpu.Device) *box {
	return &box{name: name, device: device, came: make(chan struct{}), talks: map[int]bool{}, holds: map[int]gpu.Usage{}, seen: map[int]int64{}}
}

// assumedPID stands for the processes of a container that cannot be asked.
const assumedPID = 0

// connected tells whether a process of the container ever spoke. After the
// first run it waits: a program may have come to use the GPU just now, and its
// shim connects a moment later.
func (m *Mover) connected(ctx context.Context, b *box) bool {
	b.mu.Lock()
	heard, unhooked := b.heard, b.unhooked
	b.mu.Unlock()
	if heard || unhooked {
		return heard
	}
	ctx, cancel := context.WithTimeout(ctx, m.options.helloTime)
	defer cancel()
	select {
	case <-b.came:
		return true
	case <-ctx.Done():
		return false
	}
}

func (b *box) silent() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, silent := range b.talks {
		if silent {
			n++
		}
	}
	return n
}

// assume takes a container that cannot be asked to hold what was reserved.
// Nothing of it can be moved.
func (m *Mover) assume(b *box, need gpu.Need) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seen) > 0 {
		return // NVML says what it holds
	}
	b.assumed = true
	m.hear(gpu.Held{Container: b.name, PID: assumedPID, Assumed: true, Usage: gpu.Usage{
		Allocated: need.Bytes, Resident: need.Bytes, Context: need.Context,
	}})
}

// known ends what was assumed: somebody says what the container holds. The
// caller holds b.mu.
func (m *Mover) known(b *box) {
	if b.assumed {
		b.assumed = false
		m.hear(gpu.Held{Container: b.name, PID: assumedPID, Exited: true})
	}
}

// noteUnhooked counts a container whose processes did not connect, and says so
// once for each action.
func (m *Mover) noteUnhooked(b *box) {
	b.mu.Lock()
	again := b.unhooked
	b.unhooked = true
	b.mu.Unlock()
	if again {
		return
	}
	action := actionOf(b.name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unhooked++
	if m.warned[action] {
		return
	}
	if len(m.warned) >= maxWarned {
		clear(m.warned)
	}
	m.warned[action] = true
	m.log.Warn("no process of a GPU container is connected by the shim: its memory cannot be moved and counts as reserved",
		"container", b.name, "fix", "a function that never asks for the GPU does not load it, a static program or an image with musl cannot, and one of "+
			"another version is not heard; an action that does without says so in its annotation gpu: {\"shim\": \"off\"}")
}

// maxWarned bounds the actions that are remembered.
const maxWarned = 1000

// actionOf is a container's name without the number that tells it from others
// of the same action.
func actionOf(name string) string {
	parts := strings.SplitN(name, "_", 3)
	return parts[len(parts)-1]
}

// events hears the shims.
type events struct{ m *Mover }

// Usage passes on what a process says it holds.
func (e events) Usage(name string, pid int, u gpu.Usage) {
	b := e.m.box(name)
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.heard {
		b.heard = true
		close(b.came)
	}
	e.m.known(b)
	delete(b.seen, pid)
	b.talks[pid] = false
	b.holds[pid] = u
	over := b.overByWord()
	if over == "" {
		over = e.m.allot(b)
	}
	e.m.hear(gpu.Held{Container: name, PID: pid, Usage: u, Over: over})
}

// Exited passes on that a process holds nothing any more.
func (e events) Exited(name string, pid int) {
	b := e.m.box(name)
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.talks, pid)
	delete(b.holds, pid)
	e.m.allot(b)
	e.m.hear(gpu.Held{Container: name, PID: pid, Exited: true})
}

// Refused passes on that a container's function does not bear memory that moves.
// Where nothing of it is moved there is nothing to change.
func (e events) Refused(name string, pid int, r shimctl.Refusal) {
	if b := e.m.box(name); b != nil && b.managed {
		e.m.hear(gpu.Held{Container: name, PID: pid, Unfit: r.String()})
	}
}

// Silent notes who does not answer. A frozen container is expected not to.
func (e events) Silent(name string, pid int, silent bool) {
	b := e.m.box(name)
	if b == nil {
		return
	}
	b.mu.Lock()
	b.talks[pid] = silent
	b.mu.Unlock()
	e.m.log.Info("shim of a GPU container", "container", name, "pid", pid, "answers", !silent)
}
