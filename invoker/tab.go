package invoker

import (
	"encoding/hex"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// tab is a container's note on disk, as the runs in it keep it true:
//
//	somebody runs in it, or something was begun with it  =>  the note does not
//	say that it rests
//
// so a process that comes after a crash never uses what nobody has finished
// with.
type tab struct {
	mu   sync.Mutex
	runs int
	kept bool // there is a note
	// since when it is idle, if it is.
	since time.Time
}

// engage notes that a run begins in a container, before anything of it is sent.
func (w *worker) engage(b *box) {
	if w.notes == nil {
		return
	}
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	if b.tab.runs++; b.tab.runs == 1 && b.tab.kept {
		w.notes.Mark(b.name, container.Busy, time.Time{}, container.Holds{}) // since when is of no use then
	}
}

// settle notes that a run has left a container that can be used again. The last
// one has it rest.
func (w *worker) settle(r *run) {
	if w.notes == nil {
		return
	}
	b := r.box
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	if b.tab.runs--; b.tab.runs > 0 {
		return
	}
	b.tab.since = w.wall()
	holds := b.gpu.holds()
	// The note of one that came prewarmed is written anew by its first run.
	if b.tab.kept && b.key == r.key {
		w.notes.Mark(b.name, container.Resting, b.tab.since, holds)
		return
	}
	n := r.note(b.tab.since)
	n.Holds = holds
	b.key, b.tab.kept = r.key, true
	w.notes.Write(n)
}

// note is all that must be known of a run's container when the run has left.
func (r *run) note(now time.Time) container.Note {
	n := r.box.note(now)
	n.Key, n.Concurrency = hex.EncodeToString([]byte(r.key)), r.concurrency()
	if g := r.box.gpu; g != nil {
		n.GPU = &container.GPUNote{
			Device: identity(g.device), Namespace: g.flow.Namespace, Function: g.flow.Function,
			Memory: int64(r.gpu.Memory), Unseen: r.gpu.Shim == activation.ShimOff, HostMB: r.host, Weight: r.gpu.Weight,
			Action: g.action, Fallback: g.fallback, Shim: g.wish.Shim, Limit: g.wish.Limit,
		}
	}
	return n
}

// note is what must be known of a container that nobody has used.
func (b *box) note(now time.Time) container.Note {
	s := b.spec
	return container.Note{
		ID: b.handle.ID, Name: b.name, Kind: s.Kind, Image: s.Image, Pull: s.Pull, MemoryMB: s.MemoryMB, Concurrency: 1,
		Rest: container.Resting, Since: now,
	}
}

// notePrewarmed writes the note of a container that waits for an action.
func (d *dispatcher) notePrewarmed(b *box) {
	if d.notes == nil {
		return
	}
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	b.tab.kept, b.tab.since = true, time.Now()
	d.notes.Write(b.note(b.tab.since))
}

// mark notes what is done with a container in which nobody runs.
func (d *dispatcher) mark(b *box, is container.Rest) {
	if d.notes == nil {
		return
	}
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	if b.tab.kept {
		d.notes.Mark(b.name, is, b.tab.since, b.gpu.holds())
	}
}

// dropNote forgets a container that is about to be removed.
func (d *dispatcher) dropNote(b *box) {
	if d.notes == nil || b == nil {
		return
	}
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	b.tab.kept = false
	d.notes.Drop(b.name)
}
