package roster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
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

// NoLimit is the number of slots of a Launcher that does not limit parallel creates.
const NoLimit = 1 << 30

// lateCreate is how long a create may go on after its caller has given up, so that its
// container can be removed.
const lateCreate = time.Minute

// Launcher runs creates, a limited number at once. Its semaphore counts the free slots.
type Launcher struct {
	*semaphore.Weighted
	roster *Roster
	limit  time.Duration
}

// NewLauncher returns a launcher of so many creates at once, each with a time limit.
func (r *Roster) NewLauncher(slots int, limit time.Duration) *Launcher {
	return &Launcher{semaphore.NewWeighted(int64(slots)), r, limit}
}

// Launch waits for a slot and calls launch. If the caller gives up, launch goes on and its
// container is removed. The container of a successful launch counts as handed out.
func (l *Launcher) Launch(ctx context.Context, name string, launch func(ctx context.Context) (container.Handle, error)) (container.Handle, error) {
	if err := l.Acquire(ctx, 1); err != nil {
		return container.Handle{}, fmt.Errorf("wait to create container %s: %w", name, err)
	}
	ctx, cancel := Limited(ctx, l.limit)
	defer cancel()
	type launched struct {
		handle container.Handle
		err    error
	}
	done := make(chan launched)
	work := func() {
		defer l.Release(1)
		handle, err := launch(ctx)
		select {
		case done <- launched{handle, err}:
		case <-ctx.Done():
			if handle.ID != "" {
				l.roster.Discard(string(handle.ID))
			}
		}
	}
	if !l.roster.Spawn(work) {
		l.Release(1)
		return container.Handle{}, errClosed
	}
	select {
	case end := <-done:
		if end.err == nil {
			l.roster.handOut(end.handle.ID)
		}
		return end.handle, end.err
	case <-ctx.Done():
		return container.Handle{}, fmt.Errorf("create container %s: %w", name, context.Cause(ctx))
	}
}

// Aside calls pull within a launch, and lets another create have the slot meanwhile. Its
// wait for another slot ends, because no create keeps a slot for long.
func (l *Launcher) Aside(ctx context.Context, pull func() error) error {
	l.Release(1)
	err := pull()
	_ = l.Acquire(context.WithoutCancel(ctx), 1) // fails only with its context
	return err
}

// Outlive returns a context that ends with the roster, or a while after the caller's.
func (r *Roster) Outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(r.base)
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(lateCreate, cancel)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	return work, func() { stop(); cancel() }
}

// Pull calls pull for an image. Callers that want the same image share one call, which goes
// on when one caller gives up.
func (r *Roster) Pull(ctx context.Context, image string, pull func(ctx context.Context) error) error {
	done := r.pulls.DoChan(image, func() (any, error) {
		if !r.enter() {
			return nil, errClosed
		}
		defer r.Leave()
		return nil, pull(r.base)
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return fmt.Errorf("pull image %s: %w", image, result.Err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pull image %s: %w", image, context.Cause(ctx))
	}
}
