package roster

import (
	"context"
	"errors"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/registry"
)

var (
	// ErrTimeout is the cause of the end of a context of Limited.
	ErrTimeout = errors.New("the container engine did not answer in time")
	// errClosed is the error of a call after Close.
	errClosed = errors.New("the container engine is closed")
)

// Limited returns a context with a time limit. Zero means no limit.
func Limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, ErrTimeout)
}

// Timeouts limits single operations of an engine. Zero means no limit.
type Timeouts struct {
	Create  time.Duration // create and start
	Inspect time.Duration
	Pause   time.Duration
	Unpause time.Duration
	Remove  time.Duration
	List    time.Duration
	Pull    time.Duration
	Answer  time.Duration // the beginning of an answer that takes no work
	// Settle is how long OOMKilled waits for a container to end that seems to run on. The
	// daemon notices the end some ten milliseconds late, on two cores with sixty busy
	// processes more than a second. Only a container that breaks a connection and runs on
	// takes all of this time.
	Settle time.Duration
}

// DefaultTimeouts are those of OpenWhisk's application.conf.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Create: time.Minute, Inspect: time.Minute,
		Pause: 10 * time.Second, Unpause: 10 * time.Second,
		Remove: time.Minute, List: time.Minute, Pull: 10 * time.Minute,
		Answer: 10 * time.Second, Settle: 5 * time.Second,
	}
}

// lateCreate is how long a create may go on after its caller has given up, so that its
// container can be removed.
const lateCreate = time.Minute

var (
	// ErrNotInImage is the error of a container whose program is missing in its image.
	ErrNotInImage = errors.New("executable file not found")
	// ErrEnded is the error of a container whose program ended before it had an address.
	ErrEnded = errors.New("container ended at once")
)

// Create makes and starts a container. The error is a *container.CreateError
// with the texts of OpenWhisk's DockerContainer. A container that ended at once is
// returned beside the error.
func (r *Roster) Create(ctx context.Context, spec container.Spec) (container.Handle, error) {
	var pullErr error
	if spec.Pull {
		pullErr = r.Pull(ctx, spec.Image)
		if err := r.Away(ctx, pullErr); errors.Is(err, container.ErrAway) {
			return container.Handle{}, container.NotProvisioned(err)
		}
		if pullErr != nil && registry.MovesOn(spec.Image) && !r.options.LocalImages {
			return container.Handle{}, pullFailed(spec.Image, pullErr)
		}
	}
	handle, err := r.create(ctx, spec)
	switch {
	case err == nil:
		if pullErr != nil {
			r.options.Log.Warn("image cannot be pulled, this host's copy is used", "image", spec.Image, "error", pullErr)
		}
		return handle, nil
	case errors.Is(err, ErrNotInImage): // then the image is here, pulled or not
		return container.Handle{}, container.NoProgram(spec.Image, err)
	case errors.Is(err, ErrEnded): // the author's fault
		return handle, container.EndedAtOnce(err)
	case pullErr != nil:
		return container.Handle{}, pullFailed(spec.Image, errors.Join(pullErr, err))
	}
	return container.Handle{}, container.NotProvisioned(r.Away(ctx, err))
}

func pullFailed(image string, err error) error {
	return container.PullFailed(image, errors.Is(err, registry.ErrNotAllowed), err)
}

// Away wraps the error of a daemon that is away in container.ErrAway: the daemon could not
// be reached, or did not answer in time and does not answer a ping.
func (r *Roster) Away(ctx context.Context, err error) error {
	gone := r.options.Unreachable(err)
	if errors.Is(err, ErrTimeout) || cerrdefs.IsDeadlineExceeded(err) {
		gone = r.options.Ping(ctx) != nil && ctx.Err() == nil
	}
	if !gone {
		return err
	}
	return fmt.Errorf("%w: %w", container.ErrAway, err)
}

// create waits for a slot and launches. If the caller gives up, the launch goes on and its
// container is removed. The container of a successful launch counts as handed out.
func (r *Roster) create(ctx context.Context, spec container.Spec) (container.Handle, error) {
	if err := r.Slots.Acquire(ctx, 1); err != nil {
		return container.Handle{}, fmt.Errorf("wait to create container %s: %w", spec.Name, err)
	}
	ctx, cancel := Limited(ctx, r.options.Timeouts.Create)
	defer cancel()
	type launched struct {
		handle container.Handle
		err    error
	}
	done := make(chan launched)
	launch := func() {
		defer r.Slots.Release(1)
		work, stop := r.outlive(ctx)
		defer stop()
		handle, err := r.options.Launch(ctx, work, spec)
		select {
		case done <- launched{handle, err}:
		case <-ctx.Done():
			if handle.ID != "" {
				r.Discard(string(handle.ID))
			}
		}
	}
	if !r.Spawn(launch) {
		r.Slots.Release(1)
		return container.Handle{}, errClosed
	}
	select {
	case end := <-done:
		if end.err == nil {
			r.handOut(end.handle.ID)
		}
		return end.handle, end.err
	case <-ctx.Done():
		return container.Handle{}, fmt.Errorf("create container %s: %w", spec.Name, context.Cause(ctx))
	}
}

// PullAside pulls an image within a launch, and lets another create have the slot meanwhile.
// Its wait for another slot ends, because no create keeps a slot for long.
func (r *Roster) PullAside(ctx context.Context, image string) error {
	r.Slots.Release(1)
	err := r.Pull(ctx, image)
	_ = r.Slots.Acquire(context.WithoutCancel(ctx), 1) // fails only with its context
	return err
}

// outlive returns a context that ends with the roster, or a while after the caller's.
func (r *Roster) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(r.base)
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(lateCreate, cancel)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	return work, func() { stop(); cancel() }
}
