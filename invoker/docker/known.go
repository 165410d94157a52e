package docker

import (
	"context"
	"maps"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/logs"
)

// known is a container from its create to its Remove. The fields below oomed
// are guarded by the engine's mu.
type known struct {
	id     container.ID
	ctx    context.Context // ends with Remove
	cancel context.CancelFunc
	ended  chan struct{} // closed when the container was seen to end
	oomed  chan struct{} // closed when it was seen to run out of memory

	dead      bool // ended is closed
	oom       bool // oomed is closed
	handedOut bool // Create has returned it, so its death is news
	tail      *logs.Tail
}

func (e *Engine) remember(id container.ID) *known {
	k := &known{id: id, ended: make(chan struct{}), oomed: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(e.base)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[id] = k
	return k
}

// handOut marks a container as the caller's. If it has died in the meantime,
// that is told now.
func (e *Engine) handOut(k *known) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k.handedOut = true
	if k.dead {
		e.tell(k.id)
	}
}

// forget drops a container: what happens to it is no news any more.
func (e *Engine) forget(id container.ID) {
	e.mu.Lock()
	k := e.known[id]
	delete(e.known, id)
	e.mu.Unlock()
	if k != nil {
		k.cancel()
		e.spawn(k.closeTail) // a collection under way ends first
	}
}

func (e *Engine) all() []*known {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.known))
}

func (e *Engine) find(id container.ID) *known {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known[id]
}

// bury notes the end of a container and tells it once.
func (e *Engine) bury(id container.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.known[id]
	if k == nil || k.dead {
		return
	}
	k.dead = true
	close(k.ended)
	if k.handedOut {
		e.tell(id)
	}
}

// tell delivers a death. It is called with mu held and must not block.
func (e *Engine) tell(id container.ID) {
	if e.closed {
		return
	}
	select {
	case e.died <- id:
	default:
		e.log.Error("nobody reads the deaths of containers", "container", id)
	}
}

func (e *Engine) noteOOM(id container.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.known[id]; k != nil && !k.oom {
		k.oom = true
		close(k.oomed)
	}
}
