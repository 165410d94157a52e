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
		return e.inspectOOM(ctx, id)
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
	return e.inspectOOM(ctx, id)
}

// inspectOOM asks the daemon. An unreadable state is no, as in OpenWhisk.
func (e *Engine) inspectOOM(ctx context.Context, id container.ID) bool {
	ctx, cancel := limited(ctx, e.options.Timeouts.Inspect)
	defer cancel()
	result, err := e.api.ContainerInspect(ctx, string(id), client.ContainerInspectOptions{})
	return err == nil && result.Container.State != nil && result.Container.State.OOMKilled
}
