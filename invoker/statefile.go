package invoker

import (
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// stateFile is what is on disk about a container, as the runs in it keep it true:
//
//	an activation runs in it, or something was begun with it  =>  the state file does not
//	say that it rests
//
// so a process that comes after a crash never uses what is not finished
// with. The other way round it is not always so: that a container in steady use
// rests is written when it has for a while (stateFiles.sweep), so that its next run
// finds nothing to change.
type stateFile struct {
	mu     sync.Mutex
	runs   int
	kept   bool      // it is on disk
	rests  bool      // the state file does not say that it is busy
	since  time.Time // when it became idle, if it is
	steady bool      // the last time it was idle was short
	listed bool      // it stands in tabs.idle
}

// restAfter is how short a container in steady use is idle, and how long such a
// one must be before its state file says that it rests; at most it is twice as long.
// A process that is killed meanwhile leaves one warm container less. One with a
// GPU takes too long to come back for that: it rests at once.
const restAfter = 100 * time.Millisecond

// stateFiles keeps the state files of all containers true. nil: nothing outlives the
// process.
type stateFiles struct {
	disk ContainerStates
	wall func() time.Time

	mu   sync.Mutex
	idle []*actionContainer // whose state files state that they are busy
	due  bool               // a sweep is to come
}

func newStateFiles(disk ContainerStates) *stateFiles {
	if disk == nil {
		return nil
	}
	return &stateFiles{disk: disk, wall: time.Now}
}

// engage records that a run begins in a container, before anything of it is sent.
func (sf *stateFiles) engage(ctr *actionContainer) {
	if sf == nil {
		return
	}
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	if ctr.state.runs++; ctr.state.kept && ctr.state.rests {
		ctr.state.rests, ctr.state.steady = false, ctr.gpu == nil && sf.wall().Sub(ctr.state.since) < restAfter
		sf.disk.SetActivity(ctr.name, container.Busy, time.Time{}, container.DeviceMemory{}) // since when is of no use then
	}
}

// settle records that a run has left a container that can be used again. When the
// last one has, it rests.
func (sf *stateFiles) settle(r *run) {
	if sf == nil {
		return
	}
	ctr := r.ctr
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	if ctr.state.runs--; ctr.state.runs > 0 {
		return
	}
	ctr.state.since = sf.wall()
	// The state file of one that came prewarmed is written anew by its first run.
	if ctr.state.kept && ctr.key == r.key {
		switch {
		case !ctr.state.steady:
			sf.rest(ctr)
		case !ctr.state.listed:
			ctr.state.listed = true
			sf.list(ctr)
		}
		return
	}
	state := r.stateFile(ctr.state.since)
	state.DeviceMemory = ctr.gpu.holds()
	ctr.key = r.key
	ctr.state.write(sf.disk, state)
}

// write puts down the state file of a container in which nobody runs.
func (b *stateFile) write(disk ContainerStates, state container.StateFile) {
	b.kept, b.rests = true, true
	disk.Write(state)
}

func (sf *stateFiles) list(containers ...*actionContainer) {
	sf.mu.Lock()
	defer sf.mu.Unlock()
	sf.idle = append(sf.idle, containers...)
	if !sf.due && len(sf.idle) > 0 {
		sf.due = true
		time.AfterFunc(restAfter, sf.sweep)
	}
}

// sweep records of those that have been idle for long enough that they rest.
func (sf *stateFiles) sweep() {
	sf.mu.Lock()
	idle := sf.idle
	sf.idle, sf.due = nil, false
	sf.mu.Unlock()
	now := sf.wall()
	sf.list(slices.DeleteFunc(idle, func(ctr *actionContainer) bool { return !sf.recheck(ctr, now) })...)
}

// recheck reports whether an idle container is to be looked at again.
func (sf *stateFiles) recheck(ctr *actionContainer, now time.Time) bool {
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	if ctr.state.runs == 0 && ctr.state.kept && !ctr.state.rests {
		if now.Sub(ctr.state.since) < restAfter {
			return true
		}
		sf.rest(ctr)
	}
	ctr.state.listed = false
	return false
}

// rest records that a container rests. The caller holds its lock.
func (sf *stateFiles) rest(ctr *actionContainer) {
	ctr.state.rests = true
	sf.disk.SetActivity(ctr.name, container.Idle, ctr.state.since, ctr.gpu.holds())
}

// stateFile is all that must be known of a run's container when the run has left.
func (r *run) stateFile(now time.Time) container.StateFile {
	state := r.ctr.stateFile(now)
	state.Key, state.Concurrency = hex.EncodeToString([]byte(r.key)), r.concurrency()
	if g := r.ctr.gpu; g != nil {
		state.GPU = &container.GPUStateFile{
			Device: identity(g.device), Namespace: g.flow.Namespace, Function: g.flow.Function,
			Memory: int64(r.gpu.Memory), Unseen: r.gpu.Shim == activation.ShimOff, HostMB: r.host, Weight: r.gpu.Weight,
			Action: g.action, Fallback: g.fallback, Shim: g.wish.Shim, Limit: g.wish.Limit,
		}
	}
	return state
}

// stateFile is what must be known of a container that is not used yet.
func (ctr *actionContainer) stateFile(now time.Time) container.StateFile {
	s := ctr.spec
	return container.StateFile{
		ID: ctr.handle.ID, Name: ctr.name, Kind: s.Kind, Image: s.Image, Pull: s.Pull, MemoryMB: s.MemoryMB, Concurrency: 1,
		Activity: container.Idle, Since: now,
	}
}

// prewarmed writes the state file of a container that waits for an action.
func (sf *stateFiles) prewarmed(ctr *actionContainer) {
	if sf == nil {
		return
	}
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	ctr.state.since = sf.wall()
	ctr.state.write(sf.disk, ctr.stateFile(ctr.state.since))
}

// setActivity records what is done with a container in which nobody runs.
func (sf *stateFiles) setActivity(ctr *actionContainer, is container.Activity) {
	if sf == nil {
		return
	}
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	if ctr.state.kept {
		ctr.state.rests = true
		sf.disk.SetActivity(ctr.name, is, ctr.state.since, ctr.gpu.holds())
	}
}

// drop forgets a container that is about to be removed.
func (sf *stateFiles) drop(ctr *actionContainer) {
	if sf == nil || ctr == nil {
		return
	}
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	ctr.state.kept = false
	sf.disk.Drop(ctr.name)
}
