package invoker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// actionContainer is a container with its clients. The dispatcher creates and forgets it. The
// worker that creates the container writes handle and client before it posts its event; they
// do not change afterwards.
type actionContainer struct {
	slot container.SlotID // in the CPU pool, 0 for a GPU container
	name string
	key  string // of its runs, as its state file has it
	// function is the flow of the runs in a CPU container, for the status page. The dispatcher
	// alone uses it.
	function sched.FlowID
	spec     container.Spec
	handle   container.Handle
	client   ProxyClient
	gpu      *deviceState    // nil in the CPU path
	pin      *pin            // nil: the container may serve any activation
	memo     string          // of its pin, fixed before the first run
	life     context.Context // ends when the container has ended by itself
	die      context.CancelCauseFunc

	state stateFile
}

// errDeviceLost ends the life of a container whose device is lost.
var errDeviceLost = errors.New("device lost")

// overLimit is the cause of death of a container that exceeded its device memory limit. The
// text is for the action's author.
type overLimit struct{ text string }

func (e *overLimit) Error() string { return e.text }

// lost reports whether the container has lost its device, or the right to it.
func (ctr *actionContainer) lost() bool {
	cause := context.Cause(ctr.life)
	return errors.Is(cause, errDeviceLost) || errors.As(cause, new(*overLimit))
}

// lossResponse answers a run whose container was lost under it.
func (ctr *actionContainer) lossResponse() activation.Response {
	var over *overLimit
	if errors.As(context.Cause(ctr.life), &over) {
		return activation.ErrorResponse(activation.StatusDeveloperError, over.text)
	}
	return activation.ErrorResponse(activation.StatusWhiskError, textDeviceLost)
}

// closeClients closes the clients of all containers. Call it when no worker is left and before
// the containers are removed. The kernel keeps closing connections to an address after its
// container is gone, and looks up the address only once a second. A container of the next
// process with the same address would be unreachable for that long.
func (d *dispatcher) closeClients() {
	for _, ctr := range d.alive {
		ctr.client.Close()
	}
	for _, ctr := range d.containers {
		if ctr.client != nil {
			ctr.client.Close()
		}
	}
}

// String names a container for logs.
func (ctr *actionContainer) String() string { return fmt.Sprintf("%s (%s)", ctr.name, ctr.handle.ID) }

// executor carries out the dispatcher's orders on the container engine. It does not use the
// dispatcher's state and is safe for concurrent use.
type executor struct {
	engine     Engine
	daemon     Daemon // nil: there is none
	dial       Dialer
	mover      MemoryMover // nil without devices
	stateFiles *stateFiles
	observe    *observer
	log        *slog.Logger
	began      time.Time
}

// open creates a container. If the container ended at once, open returns an error and sets the
// handle.
func (x *executor) open(ctx context.Context, ctr *actionContainer, concurrency int) error {
	if ctr.gpu != nil {
		if err := x.prepare(ctr); err != nil {
			return err
		}
	}
	h, err := x.engine.Create(ctx, ctr.spec)
	if h.ID == "" {
		return err
	}
	ctr.handle = h
	ctr.client = x.dial(h.Addr, concurrency)
	return err
}

// prepare adds the settings for device memory to a GPU container's spec.
func (x *executor) prepare(ctr *actionContainer) error {
	needs, err := x.mover.Prepare(ctr.name, ctr.gpu.device, ctr.gpu.wish)
	if err != nil {
		return &container.CreateError{
			Blame:   container.BlameWhisk,
			Message: "Failed to provision resources to run the action.",
			Err:     fmt.Errorf("prepare %s for device %s: %w", ctr.name, ctr.gpu.device, err),
		}
	}
	ctr.spec.GPU = &needs
	return nil
}

// pause freezes an idle container, and reports whether it is frozen.
func (x *executor) pause(ctx context.Context, ctr *actionContainer) bool {
	ctr.client.Close() // its proxy does not answer while it is paused
	x.stateFiles.setActivity(ctr, container.Pausing)
	err := x.engine.Pause(ctx, ctr.handle.ID)
	if err == nil {
		x.stateFiles.setActivity(ctr, container.Idle)
	} else if ctx.Err() == nil {
		x.log.Warn("pause container", keyContainer, ctr.name, "error", err)
	}
	return err == nil
}

// remove removes a container and blocks until its memory is free. If the removal fails, it
// retries for as long as work may go on, because the memory stays in use.
func (x *executor) remove(ctx context.Context, ctr *actionContainer) {
	x.stateFiles.drop(ctr)
	if ctr.handle.ID != "" {
		ctr.client.Close()
		x.removeUntilGone(ctx, ctr)
	}
	if ctr.gpu != nil {
		x.mover.Forget(ctr.name)
	}
}

func (x *executor) removeUntilGone(ctx context.Context, ctr *actionContainer) {
	for backoff := (retry.Backoff{Min: time.Second, Max: time.Minute}); ; {
		err := x.engine.Remove(ctx, ctr.handle.ID)
		if err == nil || ctx.Err() != nil {
			return
		}
		wait := backoff.Next()
		x.log.Warn("remove container, will try again", keyContainer, ctr.name, "error", err, "again", wait)
		if !retry.Sleep(ctx, wait) {
			return
		}
	}
}

// resize lets a container use the given bytes of host memory. Without it the kernel would kill
// the container when its device memory is swapped out.
func (x *executor) resize(ctx context.Context, ctr *actionContainer, bytes int64) error {
	if bytes == 0 || x.daemon == nil {
		return nil
	}
	if err := x.daemon.Resize(ctx, ctr.handle.ID, bytes); err != nil {
		return fmt.Errorf("give %s memory for swapped-out memory: %w", ctr.name, err)
	}
	return nil
}

// finalResponse is how long a run waits for its answer after its container has ended. An
// answer that was sent before the end arrives at once. The connection usually breaks with the
// container, but not if the container's network goes first.
const finalResponse = time.Second

// exchange makes a request to the container's proxy. The context of the request ends with ctx,
// or when the container has ended by itself. No answer can come then, so the user need not wait
// for the time limit. grace is the time for an answer that was sent before the end. A request
// that ended because its container died has the outcome NoResponse if it was sent, else Refused.
func (ctr *actionContainer) exchange(ctx context.Context, grace time.Duration, send func(context.Context) proxy.Exchange) proxy.Exchange {
	alive, end := context.WithCancel(ctx)
	defer end()
	if ctr.life.Err() != nil { // before anything was sent
		end()
	}
	stop := context.AfterFunc(ctr.life, func() {
		if ctr.lost() {
			end() // its answer does not count: its device is lost
			return
		}
		late := time.AfterFunc(grace, end)
		context.AfterFunc(alive, func() { late.Stop() })
	})
	defer stop()
	x := send(alive)
	if x.Failure == proxy.Cancelled && ctx.Err() == nil {
		x.Failure = proxy.Refused
		if x.Sent {
			x.Failure = proxy.NoResponse
		}
	}
	return x
}
