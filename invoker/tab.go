package invoker

import (
	"encoding/hex"
	"slices"
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
// with. The other way round it is not always so: that a container in steady use
// rests is noted when it has for a while (tabs.sweep), so that its next run
// finds nothing to change.
type tab struct {
	mu     sync.Mutex
	runs   int
	kept   bool      // there is a note
	rests  bool      // the note does not say that it is busy
	since  time.Time // when it became idle, if it is
	steady bool      // the last time it was idle was short
	listed bool      // it stands in tabs.idle
}

// restAfter is how short a container in steady use is idle, and how long such a
// one must be before its note says that it rests; at most it is twice as long.
// A process that is killed meanwhile leaves one warm container less. One with a
// GPU takes too long to come back for that: it rests at once.
const restAfter = 100 * time.Millisecond

// tabs keeps the notes of all containers true. nil: nothing outlives the
// process.
type tabs struct {
	notes Notes
	wall  func() time.Time

	mu   sync.Mutex
	idle []*box // whose notes say that they are busy
	due  bool   // a sweep is to come
}

func newTabs(notes Notes) *tabs {
	if notes == nil {
		return nil
	}
	return &tabs{notes: notes, wall: time.Now}
}

// engage notes that a run begins in a container, before anything of it is sent.
func (t *tabs) engage(b *box) {
	if t == nil {
		return
	}
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	if b.tab.runs++; b.tab.kept && b.tab.rests {
		b.tab.rests, b.tab.steady = false, b.gpu == nil && t.wall().Sub(b.tab.since) < restAfter
		t.notes.Mark(b.name, container.Busy, time.Time{}, container.Holds{}) // since when is of no use then
	}
}

// settle notes that a run has left a container that can be used again. When the
// last one has, it rests.
func (t *tabs) settle(r *run) {
	if t == nil {
		return
	}
	b := r.box
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	if b.tab.runs--; b.tab.runs > 0 {
		return
	}
	b.tab.since = t.wall()
	// The note of one that came prewarmed is written anew by its first run.
	if b.tab.kept && b.key == r.key {
		switch {
		case !b.tab.steady:
			t.rest(b)
		case !b.tab.listed:
			b.tab.listed = true
			t.list(b)
		}
		return
	}
	n := r.note(b.tab.since)
	n.Holds = b.gpu.holds()
	b.key = r.key
	b.tab.write(t.notes, n)
}

// write puts down the note of a container in which nobody runs.
func (b *tab) write(notes Notes, n container.Note) {
	b.kept, b.rests = true, true
	notes.Write(n)
}

func (t *tabs) list(boxes ...*box) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = append(t.idle, boxes...)
	if !t.due && len(t.idle) > 0 {
		t.due = true
		time.AfterFunc(restAfter, t.sweep)
	}
}

// sweep notes of those that have been idle for long enough that they rest.
func (t *tabs) sweep() {
	t.mu.Lock()
	idle := t.idle
	t.idle, t.due = nil, false
	t.mu.Unlock()
	now := t.wall()
	t.list(slices.DeleteFunc(idle, func(b *box) bool { return !t.look(b, now) })...)
}

// look tells whether an idle container is to be looked at again.
func (t *tabs) look(b *box, now time.Time) bool {
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	if b.tab.runs == 0 && b.tab.kept && !b.tab.rests {
		if now.Sub(b.tab.since) < restAfter {
			return true
		}
		t.rest(b)
	}
	b.tab.listed = false
	return false
}

// rest notes that a container rests. The caller holds its lock.
func (t *tabs) rest(b *box) {
	b.tab.rests = true
	t.notes.Mark(b.name, container.Resting, b.tab.since, b.gpu.holds())
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

// prewarmed writes the note of a container that waits for an action.
func (t *tabs) prewarmed(b *box) {
	if t == nil {
		return
	}
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	b.tab.since = t.wall()
	b.tab.write(t.notes, b.note(b.tab.since))
}

// mark notes what is done with a container in which nobody runs.
func (t *tabs) mark(b *box, is container.Rest) {
	if t == nil {
		return
	}
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	if b.tab.kept {
		b.tab.rests = true
		t.notes.Mark(b.name, is, b.tab.since, b.gpu.holds())
	}
}

// drop forgets a container that is about to be removed.
func (t *tabs) drop(b *box) {
	if t == nil || b == nil {
		return
	}
	b.tab.mu.Lock()
	defer b.tab.mu.Unlock()
	b.tab.kept = false
	t.notes.Drop(b.name)
}
