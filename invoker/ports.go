// Package invoker is the hallway between Kafka, the pure cores and the
// containers: it routes an activation, dispatches it, has it run and completes
// it exactly once. It declares the ports it needs and imports no adapter.
package invoker

import (
	"context"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// Engine creates and removes containers. Docker and plain processes implement
// it. Every call may block and ends with its context. An engine may be called
// from many goroutines at once.
type Engine interface {
	// Create makes and starts a container and waits until it has an address,
	// not until its proxy listens. The error is a *container.CreateError.
	Create(ctx context.Context, spec container.Spec) (container.Handle, error)
	// Pause freezes a container; Resume thaws it. Both answer
	// container.ErrGone when it no longer exists.
	Pause(ctx context.Context, id container.ID) error
	Resume(ctx context.Context, id container.ID) error
	// Remove ends and deletes a container in any state; one that is gone
	// already is no error.
	Remove(ctx context.Context, id container.ID) error
	// OOMKilled tells whether the kernel ended the container for its memory
	// use. It waits as briefly as the engine allows for the answer to settle.
	OOMKilled(ctx context.Context, id container.ID) bool
	// Logs reads what the container printed since the last call for it, up to
	// the end of one activation's output.
	Logs(ctx context.Context, id container.ID, req container.LogRequest) container.LogResult
	// CleanUp removes every container whose name starts with prefix.
	CleanUp(ctx context.Context, prefix string) error
	// Died delivers the ids of containers that ended or vanished without
	// Remove. It is closed when the engine is.
	Died() <-chan container.ID
}
