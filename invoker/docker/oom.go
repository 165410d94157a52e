package docker

import (
	"context"
	"time"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// OOMKilled tells whether the kernel ended the container, or a process in it,
// for its memory use. A container that still seems to run gets a moment to
// end: the proxy's connection breaks some ten milliseconds before the daemon
// learns why.
func (e *Engine) OOMKilled(ctx context.Context, id container.ID) bool {
	k := e.find(id)
	if k == nil {
		killed, _ := e.inspectOOM(ctx, id)
		return killed
	}
	settled := time.NewTimer(e.options.Timeouts.Settle)
	defer settled.Stop()
	select {
	case <-k.oomed:
		return true
	case <-k.ended:
	case <-settled.C:
	case <-ctx.Done():
	}
	killed, bySignal := e.inspectOOM(ctx, id)
	if killed || !bySignal {
		return killed
	}
	// The kernel's word on memory and that on the end come to the daemon by two
	// ways, and the one on memory may be the later.
	late := time.NewTimer(min(lateOOM, e.options.Timeouts.Settle))
	defer late.Stop()
	select {
	case <-k.oomed:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	killed, _ = e.inspectOOM(ctx, id)
	return killed
}

// lateOOM is how much later than a container's end the daemon may learn that it
// was for its memory use.
const lateOOM = time.Second

// endedByKill is the exit code of what was ended by SIGKILL, by the kernel for
// its memory use or by anybody.
const endedByKill = 128 + 9

// inspectOOM asks the daemon, and tells also whether the container was ended by
// SIGKILL. An unreadable state is no, as in OpenWhisk.
func (e *Engine) inspectOOM(ctx context.Context, id container.ID) (killed, bySignal bool) {
	ctx, cancel := limited(ctx, e.options.Timeouts.Inspect)
	defer cancel()
	result, err := e.api.ContainerInspect(ctx, string(id), client.ContainerInspectOptions{})
	if err != nil || result.Container.State == nil {
		return false, false
	}
	s := result.Container.State
	return s.OOMKilled, !s.Running && s.ExitCode == endedByKill
}
