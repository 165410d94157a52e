package invoker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// run is one activation in one container, from its start to its leaving.
type run struct {
	*pending
	ctr       *actionContainer
	start     container.Start
	resume    bool
	first     bool          // the container was idle, or is new
	lease     *lease        // nil in the CPU path
	begun     bool          // begin was called, and end was not
	hasLeft   bool          // it has left its container
	logBytes  int64         // reserved for its log
	accounted chan struct{} // closed when the dispatcher has applied over; nil before finish
	// answered is whether /run was answered, whatever the answer is.
	answered bool
	// unstartable is the response of a run whose action could not be started, if any
	// other run of the revision would get the same. It is nil otherwise.
	unstartable *activation.Response
	began       time.Time // when its worker began
}

// worker carries out runs. It has no state of its own: its input is the run, and its results
// go to the dispatcher and to the completer.
type worker struct {
	*executor
	post      func(event)
	completer *completer
	// userLogs gets the lines beside the record; nil: not wanted.
	userLogs UserLogs
	health   *engineHealth
	large    *semaphore.Weighted  // bytes of large logs between container and store
	bounds   activation.Bounds    // of the system: they hold for /init
	clock    func() time.Duration // the dispatcher's
}

// largeLogs bounds the bytes of large logs that are in memory at once, over all
// activations. A line takes up to twice its bytes in the log: as text, and in the
// document for the store. A log that waits stays in its container's file.
const largeLogs = 16 << 20

// errAgain means that the container was lost or unhealthy before the activation had begun.
// Nothing is sent, and the activation runs in another container.
var errAgain = errors.New("container is not usable, run elsewhere")

// do runs one activation. In every case the run leaves its container. The pending activation
// is completed or queued again, unless ctx has ended: then the message is delivered again
// after a restart.
func (w *worker) do(ctx context.Context, r *run) {
	defer func() {
		cause := recover()
		if cause != nil {
			w.log.Error("worker panicked", keyActivation, r.ActivationID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
		if !r.hasLeft {
			w.leave(ctx, left{run: r})
		}
		if cause != nil && ctx.Err() == nil {
			rec := r.record(activation.ErrorResponse(activation.StatusWhiskError, proxy.TextAbnormal), time.Now())
			w.completer.end(r.pending, ending{End: delivery.End{Record: rec}})
		}
		w.large.Release(r.logBytes)
	}()
	response, err := w.steps(ctx, r)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errAgain):
		w.log.Info("activation goes to another container", keyActivation, r.ActivationID, keyContainer, r.ctr.name, "reason", err)
		w.observe.rescheduled(r)
		w.leave(ctx, left{run: r, unused: true})
		w.post(arrived{r.pending})
	default:
		w.conclude(ctx, r, response, err)
	}
}

// steps gets the container ready and runs the action in it. The error of a failed creation is
// a *container.CreateError.
func (w *worker) steps(ctx context.Context, r *run) (activation.Response, error) {
	r.began = time.Now()
	var err error
	switch {
	case r.start == container.Cold:
		err = w.create(ctx, r)
	case r.resume:
		if err = w.engine.Resume(ctx, r.ctr.handle.ID); err != nil {
			err = fmt.Errorf("%w: resume: %w", errAgain, err)
		}
	}
	if r.ctr.lost() { // which is also why it could not be created
		return activation.Response{}, fmt.Errorf("%w: %w before the run", errAgain, errDeviceLost)
	}
	if err != nil {
		return activation.Response{}, err
	}
	if r.lease != nil {
		w.mover.Begin(r.ctr.name, r.lease.need)
		r.begun = true
	}
	w.stateFiles.runBegins(r.ctr)
	call, err := proxy.NewInvocation(r.Message, r.content, r.action.Annotations.ProvidesAPIKey())
	if err != nil {
		return activation.Response{}, err
	}
	call.GPU = r.ctr.spec.GPU
	response, ok := activation.Response{}, true
	if r.start != container.Warm {
		response, ok = w.init(ctx, r, call)
	}
	if ok {
		response, err = w.run(ctx, r, call)
	}
	if err == nil && response.StatusCode != activation.StatusSuccess && r.ctr.lost() {
		// The loss of the device caused the error of the action, or its end.
		response = r.ctr.lossResponse()
	}
	return response, err
}

// textDeviceLost answers an activation whose GPU failed under it.
const textDeviceLost = "The GPU that the action ran on was lost."

func (w *worker) create(ctx context.Context, r *run) error {
	began := time.Now()
	if err := w.createWhenBack(ctx, r); err != nil {
		return err
	}
	w.observe.created(r, began, time.Since(began))
	w.post(opened{r.ctr})
	return nil
}

// init initialises a new container. ok means that the action can run in it.
func (w *worker) init(ctx context.Context, r *run, call proxy.Invocation) (response activation.Response, ok bool) {
	if w.completer.begin(ctx, r.pending) != nil {
		return activation.Response{}, false // ctx has ended, nothing is sent
	}
	body := call.InitBody(r.action, time.Now().Add(r.timeout))
	limit := proxy.Limit{Max: int64(w.bounds.Payload), Truncation: int64(w.bounds.Truncation)}
	x := r.ctr.exchange(ctx, 0, func(ctx context.Context) proxy.Exchange {
		return r.ctr.client.Init(ctx, body, r.timeout, limit)
	})
	w.observe.initEnded(r, x)
	if x.Unhealthy() { // OpenWhisk's invoker loses such an activation
		return activation.ErrorResponse(activation.StatusDeveloperError, proxy.TextNotInitialized), false
	}
	if response, ok = proxy.InitOutcome(x, r.timeout, x.Broken() && w.outOfMemory(ctx, r, x)); ok {
		w.post(warmed{r.ctr})
	}
	return response, ok
}

func (w *worker) run(ctx context.Context, r *run, call proxy.Invocation) (activation.Response, error) {
	if err := w.completer.begin(ctx, r.pending); err != nil {
		return activation.Response{}, err
	}
	body := call.RunBody(time.Now().Add(r.timeout))
	limit := proxy.Limit{Max: int64(r.bounds.Payload), Truncation: int64(r.bounds.Truncation)}
	x := r.ctr.exchange(ctx, finalResponse, func(ctx context.Context) proxy.Exchange {
		return r.ctr.client.Run(ctx, body, r.timeout, limit)
	})
	if r.start == container.Warm && (x.Failure == proxy.Refused || r.first && x.Unhealthy()) {
		// A refused call reached no action, so it can run elsewhere.
		return activation.Response{}, fmt.Errorf("%w: %s, status %d", errAgain, x.Failure, x.Status)
	}
	r.answered = x.Status != 0 && x.Failure == proxy.None
	w.observe.runAnswered(r, x)
	if x.Unhealthy() {
		return activation.ErrorResponse(activation.StatusDeveloperError, proxy.TextAbnormal), nil
	}
	return proxy.RunOutcome(x, r.timeout, x.Broken() && w.outOfMemory(ctx, r, x)), nil
}

// outOfMemory asks the engine why the connection broke. After a timeout the activation is
// answered at once.
func (w *worker) outOfMemory(ctx context.Context, r *run, x proxy.Exchange) bool {
	return x.Elapsed() < r.timeout && !r.ctr.lost() && w.engine.OOMKilled(ctx, r.ctr.handle.ID)
}

// conclude reads the logs, gives the container back and completes the pending activation. The
// container is free before the controller gets the completion, ready for the controller's next
// message.
func (w *worker) conclude(ctx context.Context, r *run, response activation.Response, err error) {
	combined := err != nil && !r.endedAtOnce(err) // it never reached a container
	if err != nil {
		response = w.failure(r, err)
	}
	rec := r.record(response, time.Now())
	end := delivery.End{Record: rec, Combined: combined, Store: w.completer.store.keeps(r.pending, response)}
	keep := response.StatusCode < activation.StatusDeveloperError
	if r.lease != nil {
		r.judgeStart(response)
		end = w.concludeOnGPU(ctx, r, end, keep)
	} else {
		if r.collect && !combined {
			logged := *rec
			logged.Logs = w.logs(ctx, r, end, !keep)
			end.Record = &logged
		}
		w.leave(ctx, left{run: r, keep: keep})
	}
	if end.Store {
		end.Document = end.Record.Document(w.completer.wall().UnixMilli())
	}
	w.completer.take(r.pending, delivery.Event{Kind: delivery.Filed, End: end})
}

// concludeOnGPU is the part of conclude for a run on a GPU. The completion does not wait for
// the report of the container's memory; only the record waits. It returns the end with the
// complete record.
func (w *worker) concludeOnGPU(ctx context.Context, r *run, end delivery.End, keep bool) delivery.End {
	plain := *end.Record
	annotate := func() delivery.End {
		rec := plain
		rec.Annotations = append(slices.Clip(plain.Annotations), r.lease.annotation(&r.trace, w.clock()))
		end.Record = &rec
		return end
	}
	if !end.Combined {
		w.finish(ctx, r, keep)
		if r.collect {
			plain.Logs = w.logs(ctx, r, annotate(), !keep)
		}
	}
	w.completer.take(r.pending, delivery.Event{Kind: delivery.Answered, End: annotate()})
	w.leave(ctx, left{run: r, keep: keep})
	w.observe.leftGPU(r, w.clock())
	return annotate()
}

// endedAtOnce reports whether err is about a container that was created and ended before it
// had an address. The container's output tells its author why.
func (r *run) endedAtOnce(err error) bool {
	var failed *container.CreateError
	return errors.As(err, &failed) && r.ctr.handle.ID != ""
}

// failure returns the response of an activation that got no container.
func (w *worker) failure(r *run, err error) activation.Response {
	var ce *container.CreateError
	if errors.As(err, &ce) {
		status := activation.StatusWhiskError
		if ce.Blame == container.BlameDeveloper {
			status = activation.StatusDeveloperError
		}
		w.log.Warn("create container", keyActivation, r.ActivationID, keyContainer, r.ctr.name, "error", err)
		return activation.ErrorResponse(status, ce.Message)
	}
	w.log.Error("run activation", keyActivation, r.ActivationID, keyContainer, r.ctr.name, "error", err)
	return activation.ErrorResponse(activation.StatusWhiskError, proxy.TextAbnormal)
}

// logs reads the log lines of the run. A caller that waits gets the result before the lines
// are read (MessagingActiveAck). If the lines can be read at once, the result and the
// completion are one message.
func (w *worker) logs(ctx context.Context, r *run, end delivery.End, failed bool) []string {
	request := container.LogRequest{
		WaitForSentinel: r.action.Exec.Sentinels && !failed,
		LimitBytes:      int64(r.action.Limits.LogsMB) << 20,
		Now:             time.Now(),
		Failed:          failed,
		Answered:        r.action.Exec.Sentinels && failed && r.answered,
		Alone:           r.concurrency == 1,
		Raw:             w.userLogs != nil,
	}
	request.Reserve = func() error {
		n := min(request.LimitBytes, largeLogs)
		err := w.large.Acquire(ctx, n)
		if err == nil {
			r.logBytes = n
		}
		return err
	}
	if !w.engine.LogsReady(r.ctr.handle.ID, request) {
		w.completer.take(r.pending, delivery.Event{Kind: delivery.Resulted, End: end})
	}
	began := time.Now()
	got := w.engine.Logs(ctx, r.ctr.handle.ID, request)
	w.observe.logsRead(r, began, time.Since(began), got)
	if w.userLogs != nil {
		w.userLogs.Write(r.userLog(end.Record, got.Raw))
	}
	return got.Lines
}
