package invoker

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// lease is the token of a run. After the start only the atomic fields and over change.
type lease struct {
	device    string
	kind      sched.StartKind
	need      gpu.MemoryRequest
	waited    time.Duration // for the token
	memory    atomic.Int64  // bytes that the run needs, as far as known
	measured  atomic.Bool   // it was measured
	transfer  *transfer     // that served the run, nil for none
	hostMB    int           // host memory that its container takes
	fallback  string        // why its memory is only counted; empty if its action asks for that
	tokenFree bool          // the token is given back; the dispatcher's
}

// transfer is a prefetch, as seen by the runs that it serves.
type transfer struct {
	epoch uint64
	began time.Duration
	took  atomic.Int64 // 0 while it is under way
}

// time returns how long a transfer took, or has taken until now; 0 for nil.
func (t *transfer) time(now time.Duration) time.Duration {
	if t == nil {
		return 0
	}
	if took := t.took.Load(); took > 0 {
		return time.Duration(took)
	}
	return max(0, now-t.began)
}

// annotation returns the GPU annotation of the record.
func (l *lease) annotation(t *explain.Trace, now time.Duration) activation.Annotation {
	run := activation.GPURun{
		Device: l.device, Start: l.kind.String(), QueueTime: l.waited.Milliseconds(),
		PrefetchTime: l.transfer.time(now).Milliseconds(), Memory: l.memory.Load(), Measured: l.measured.Load(), Fallback: l.fallback,
	}
	if !t.RunStart.IsZero() {
		run.GPUTime = t.RunEnd.Sub(t.RunStart).Milliseconds()
	}
	return run.Annotation()
}

// end reports to the mover that the run is over, once. Afterwards the container's memory is
// known.
func (w *worker) end(ctx context.Context, r *run) {
	if r.begun {
		r.begun = false
		w.mover.End(ctx, r.ctr.name, r.lease.need)
	}
}

// finish asks the container for its memory in another goroutine, and gives the token back
// when the memory is known: the run needs no device while logs are read and acks are sent.
// The worker waits for the goroutine before the run leaves.
func (w *worker) finish(ctx context.Context, r *run, keep bool) {
	r.accounted = make(chan struct{})
	if keep {
		w.post(answered{r})
	}
	go func() {
		defer w.post(over{run: r, keep: keep, applied: r.accounted})
		defer func() {
			if cause := recover(); cause != nil {
				w.log.Error("end of a run panicked", keyActivation, r.ActivationID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			}
		}()
		if !keep { // the memory of a container that goes does not matter
			ended, end := context.WithCancel(ctx)
			end()
			ctx = ended
		}
		w.end(ctx, r)
	}()
}

// leave gives a run's container back, and its token if it still has the token.
func (w *worker) leave(ctx context.Context, e left) {
	e.run.hasLeft = true
	switch {
	case e.run.accounted != nil:
		<-e.run.accounted
	case e.run.lease != nil:
		w.end(ctx, e.run)
	}
	if e.keep {
		w.stateFiles.runLeft(e.run)
	}
	w.post(e)
}

// event returns the end of a run for the GPU scheduler. The time in which a container is
// created and initialised is not charged to the device.
func (e left) event(kind scheduler.EventKind) scheduler.Event {
	r := e.run
	out := scheduler.Event{Kind: kind, Invocation: r.invocation, Keep: e.keep, Unused: e.unused, Unstartable: r.unstartable != nil}
	switch t := &r.trace; {
	case !t.RunStart.IsZero():
		out.Ran = t.RunEnd.Sub(t.RunStart)
		if r.start != container.Warm {
			out.Setup = t.RunStart.Sub(r.began)
		}
	case r.start != container.Warm && !r.began.IsZero():
		out.Setup = time.Since(r.began)
	}
	return out
}
