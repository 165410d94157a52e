package invoker

import (
	"encoding/hex"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// stateFile mirrors a container's state file on disk while runs go on. The state on disk is
// Idle if and only if no activation runs in the container and no other work has begun on it.
// So the process after a crash never uses a container that was in use.
type stateFile struct {
	mu    sync.Mutex
	runs  int
	kept  bool      // it is on disk
	since time.Time // when it became idle, if it is
}

// stateFiles keeps the state files of all containers up to date. A nil stateFiles is a no-op:
// no container outlives the process.
type stateFiles struct{ disk ContainerStates }

func newStateFiles(disk ContainerStates) *stateFiles {
	if disk == nil {
		return nil
	}
	return &stateFiles{disk}
}

// runBegins records that a run begins in a container. It must be called before any part of the
// run is sent.
func (sf *stateFiles) runBegins(ctr *actionContainer) {
	if sf == nil {
		return
	}
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	if ctr.state.runs++; ctr.state.kept && ctr.state.runs == 1 {
		sf.disk.SetActivity(ctr.name, container.Busy, time.Time{}, container.DeviceMemory{}) // a busy one has no since
	}
}

// runLeft records that a run has left a container that can be used again. The container is
// idle after its last run has left.
func (sf *stateFiles) runLeft(r *run) {
	if sf == nil {
		return
	}
	ctr := r.ctr
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	if ctr.state.runs--; ctr.state.runs > 0 {
		return
	}
	ctr.state.since = time.Now()
	// The state file of a prewarmed one is written anew after its first run.
	if ctr.state.kept && ctr.key == r.key {
		sf.disk.SetActivity(ctr.name, container.Idle, ctr.state.since, ctr.gpu.holds())
		return
	}
	state := r.stateFile(ctr.state.since)
	state.DeviceMemory = ctr.gpu.holds()
	ctr.key = r.key
	ctr.state.write(sf.disk, state)
}

// write stores the state file of an idle container.
func (f *stateFile) write(disk ContainerStates, state container.StateFile) {
	f.kept = true
	disk.Write(state)
}

// stateFile is the state file of a run's container when the run has left.
func (r *run) stateFile(now time.Time) container.StateFile {
	state := r.ctr.stateFile(now)
	state.Key, state.Concurrency = hex.EncodeToString([]byte(r.key)), r.concurrency
	if g := r.ctr.gpu; g != nil {
		state.GPU = &container.GPUStateFile{
			Device: identity(g.device), Namespace: g.flow.Namespace, Function: g.flow.Function,
			Memory: int64(r.gpu.Memory), Unseen: r.gpu.Shim == activation.ShimOff, HostMB: r.lease.hostMB, Weight: r.gpu.Weight,
			Action: g.action, Revision: g.revision, Fallback: g.fallback, Shim: g.wish.Shim, Limit: g.wish.Limit,
		}
	}
	return state
}

// stateFile is the state file of a container that is not used yet.
func (ctr *actionContainer) stateFile(now time.Time) container.StateFile {
	s := ctr.spec
	return container.StateFile{
		Pin: ctr.memo, ID: ctr.handle.ID, Name: ctr.name, Kind: s.Kind, Image: s.Image, Pull: s.Pull, MemoryMB: s.MemoryMB, Concurrency: 1,
		Activity: container.Idle, Since: now,
	}
}

// prewarmed writes the state file of a prewarmed container.
func (sf *stateFiles) prewarmed(ctr *actionContainer) {
	if sf == nil {
		return
	}
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	ctr.state.since = time.Now()
	ctr.state.write(sf.disk, ctr.stateFile(ctr.state.since))
}

// setActivity records the activity of a container without runs.
func (sf *stateFiles) setActivity(ctr *actionContainer, is container.Activity) {
	if sf == nil {
		return
	}
	ctr.state.mu.Lock()
	defer ctr.state.mu.Unlock()
	if ctr.state.kept {
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
