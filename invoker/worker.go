package invoker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/steps"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// run is one activation in one container, from its placement to its leaving.
type run struct {
	*job
	box    *box
	start  container.Start
	resume bool
	first  bool          // the container was idle, or is new
	grant  *grant        // nil in the CPU lane
	begun  bool          // the mover knows of it
	over   chan struct{} // closed when the dispatcher knows that the GPU part is over; nil before
	// answered tells that /run has brought an answer, whatever that says.
	answered bool
	at       times
}

// worker carries runs out. It has no state of its own: what a run needs lies
// in the run, and what came of it goes to the dispatcher and to the desk.
type worker struct {
	engine Engine
	tabs   *tabs
	mover  Mover // of the GPU lane
	open   func(ctx context.Context, b *box, concurrency int) error
	post   func(event)
	desk   *desk
	// userLogs gets what is read beside the record; nil: nobody wants it.
	userLogs UserLogs
	health   *engineHealth
	bounds   activation.Bounds // of the system: they hold for /init
	metrics  *Metrics
	log      *slog.Logger
	marks    *marks
	wall     func() time.Time
	clock    func() time.Duration // the dispatcher's
}

// errAgain is a container that was gone or unwell before the activation had
// begun: the activation runs elsewhere, nobody hears of it.
var errAgain = errors.New("container is not usable, run elsewhere")

// do runs one activation. Whatever happens, the run leaves its container and
// its ticket is completed, or the job is queued again, or ctx has ended and
// the message will come again after a restart.
func (w *worker) do(ctx context.Context, r *run) {
	gone, again := false, false
	leave := func(e left) {
		gone = true
		w.marks.left(r)
		w.leave(ctx, e)
	}
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("worker panicked", keyActivation, r.ActivationID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
		if !gone {
			leave(left{run: r})
		}
		if ctx.Err() == nil && !again {
			w.abort(r)
		}
	}()
	response, err := w.steps(ctx, r)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errAgain):
		w.log.Info("activation goes to another container", keyActivation, r.ActivationID, keyContainer, r.box.name, "reason", err)
		w.metrics.rescheduled.Inc()
		again = true
		if r.account != nil {
			r.account.Again++
		}
		leave(left{run: r, unused: true})
		w.post(arrived{r.job})
	default:
		w.conclude(ctx, r, response, err, leave)
	}
}

// abort completes a ticket that nobody else has completed, and files one that
// was answered and no more.
func (w *worker) abort(r *run) {
	if r.ticket.filed() {
		return // as nearly always
	}
	w.desk.fileAsAnswered(r.ticket)
	rec := runRecord(r.Message, r.action, activation.ErrorResponse(activation.StatusWhiskError, textAborted), r.at, w.wall())
	w.desk.complete(r.ticket, ending{record: rec})
}

// steps gets the container ready and runs the action in it. A failed creation
// comes back as a *container.CreateError.
func (w *worker) steps(ctx context.Context, r *run) (activation.Response, error) {
	r.at.begun = w.wall()
	w.marks.placed(r)
	err := w.reach(ctx, r)
	if r.box.lost() { // which also explains why there is no container
		return activation.Response{}, fmt.Errorf("%w: %w before the run", errAgain, errDeviceLost)
	}
	if err != nil {
		return activation.Response{}, err
	}
	w.begin(r)
	w.tabs.engage(r.box)
	call, err := proxy.NewInvocation(r.Message, r.content, r.action.Annotations.ProvidesAPIKey())
	if err != nil {
		return activation.Response{}, err
	}
	call.GPU = r.grant != nil
	response, err := w.exchange(ctx, r, call)
	if err == nil && response.StatusCode != activation.StatusSuccess && r.box.lost() {
		// The action, or its end, only shows what happened to its device.
		response = r.box.farewell()
	}
	return response, err
}

// textDeviceLost answers an activation whose GPU failed under it.
const textDeviceLost = "The GPU that the action ran on was lost."

// exchange initialises the container if it is new, and runs the action.
func (w *worker) exchange(ctx context.Context, r *run, call proxy.Invocation) (activation.Response, error) {
	if r.start != container.Warm {
		response, ok := w.init(ctx, r, call)
		if !ok {
			return response, nil
		}
		w.post(warmed{r.box})
	}
	return w.run(ctx, r, call)
}

// reach creates or resumes the container if it must.
func (w *worker) reach(ctx context.Context, r *run) error {
	switch {
	case r.start == container.Cold:
		return w.create(ctx, r)
	case r.resume:
		ended := w.marks.docker(r.TransID, "unpause", string(r.box.handle.ID))
		err := w.engine.Resume(ctx, r.box.handle.ID)
		if ended(err); err != nil {
			return fmt.Errorf("%w: resume: %w", errAgain, err)
		}
	}
	return nil
}

func (w *worker) create(ctx context.Context, r *run) error {
	began := w.wall()
	ended := w.marks.docker(r.TransID, "run", r.box.name)
	err := w.createPatiently(steps.With(ctx, r.TransID), r)
	if ended(err); err != nil {
		return err
	}
	took := w.wall().Sub(began)
	w.metrics.phase("create", took)
	if r.account != nil {
		r.account.CreateStart, r.account.Create = began, took
	}
	w.post(opened{r.box})
	return nil
}

func (w *worker) init(ctx context.Context, r *run, call proxy.Invocation) (activation.Response, bool) {
	if r.ticket.started(ctx) != nil {
		return activation.Response{}, false // ctx has ended, nobody hears of this
	}
	body := call.InitBody(r.action, w.wall().Add(r.timeout()))
	limit := proxy.Limit{Max: int64(w.bounds.Payload), Truncation: int64(w.bounds.Truncation)}
	w.marks.initBegins(r)
	living, end := r.box.alive(ctx, 0)
	x := unlessDead(ctx, r.box.talk.Init(living, body, r.timeout(), limit))
	end()
	r.at.initStart, r.at.initEnd = x.Start, x.End
	w.metrics.phase("init", x.Elapsed())
	w.marks.initEnds(r, x)
	if x.Unhealthy() {
		return activation.ErrorResponse(activation.StatusDeveloperError, textNotInitialised), false
	}
	return proxy.InitOutcome(x, r.timeout(), w.outOfMemory(ctx, r, x))
}

// textNotInitialised answers a proxy that says 503 to /init. The original
// loses such an activation.
const textNotInitialised = "The action did not initialize and exited unexpectedly."

func (w *worker) run(ctx context.Context, r *run, call proxy.Invocation) (activation.Response, error) {
	if err := r.ticket.started(ctx); err != nil {
		return activation.Response{}, err
	}
	body := call.RunBody(w.wall().Add(r.timeout()))
	limit := proxy.Limit{Max: int64(r.bounds.Payload), Truncation: int64(r.bounds.Truncation)}
	w.marks.runBegins(r)
	x := unlessDead(ctx, r.box.talk.Run(r.box.running(ctx), body, r.timeout(), limit))
	if r.first && r.start == container.Warm && (x.Failure == proxy.Refused || x.Unhealthy()) {
		return activation.Response{}, fmt.Errorf("%w: first run after a rest: %s, status %d", errAgain, x.Failure, x.Status)
	}
	r.answered = x.Status != 0 && x.Failure == proxy.None
	w.marks.runEnds(r, x)
	r.at.runStart, r.at.runEnd = x.Start, x.End
	w.metrics.phase("run", x.Elapsed())
	if x.Unhealthy() {
		return activation.ErrorResponse(activation.StatusDeveloperError, proxy.TextAbnormal), nil
	}
	return proxy.RunOutcome(x, r.timeout(), w.outOfMemory(ctx, r, x)), nil
}

// outOfMemory asks the engine only where the connection broke: a timeout is
// answered as such at once.
func (w *worker) outOfMemory(ctx context.Context, r *run, x proxy.Exchange) bool {
	if !x.Broken() || x.Elapsed() >= r.timeout() || r.box.lost() {
		return false
	}
	return w.engine.OOMKilled(ctx, r.box.handle.ID)
}

// conclude sends the result, reads the logs, gives the container back and
// completes the ticket, in this order.
func (w *worker) conclude(ctx context.Context, r *run, response activation.Response, err error, leave func(left)) {
	if err != nil {
		response = w.failure(r, err)
	}
	rec := runRecord(r.Message, r.action, response, r.at, w.wall())
	keep := response.StatusCode < activation.StatusDeveloperError
	switch {
	case r.grant != nil:
		w.concludeGPU(ctx, r, rec, err, keep, leave)
		return
	case r.collect && err == nil:
		lines := w.logs(ctx, r, rec, !keep, func() { w.desk.result(r.ticket, rec) })
		rec = withLogs(rec, lines)
		leave(left{run: r, keep: keep})
	default:
		leave(left{run: r, keep: keep})
	}
	r.ran(w.clock())
	w.desk.complete(r.ticket, ending{record: rec, whole: err != nil})
}

func withLogs(rec *activation.Record, lines []string) *activation.Record {
	more := *rec
	more.Logs = lines
	return &more
}

// failure is the answer to an activation that got no container.
func (w *worker) failure(r *run, err error) activation.Response {
	var ce *container.CreateError
	if errors.As(err, &ce) {
		status := activation.StatusWhiskError
		if ce.Blame == container.BlameDeveloper {
			status = activation.StatusDeveloperError
		}
		w.log.Warn("create container", keyActivation, r.ActivationID, keyContainer, r.box.name, "error", err)
		return activation.ErrorResponse(status, ce.Message)
	}
	w.log.Error("run activation", keyActivation, r.ActivationID, keyContainer, r.box.name, "error", err)
	return activation.ErrorResponse(activation.StatusWhiskError, textAborted)
}

// logs reads the lines that belong to the run. It always answers: what is
// missing is said in the last line. waits is called once if they are not all
// there at the first look; where they are, the result and the completion may
// go in one.
func (w *worker) logs(ctx context.Context, r *run, rec *activation.Record, failed bool, waits func()) []string {
	began := w.wall()
	w.marks.logsBegin(r)
	waits = sync.OnceFunc(waits)
	select {
	case r.box.logs <- struct{}{}:
	default:
		waits()
		r.box.logs <- struct{}{}
	}
	defer func() { <-r.box.logs }()
	got := w.engine.Logs(ctx, r.box.handle.ID, container.LogRequest{
		WaitForSentinel: r.action.Exec.Sentinels && !failed,
		LimitBytes:      int64(r.action.Limits.LogsMB) << 20,
		Now:             w.wall(),
		Failed:          failed,
		Answered:        r.action.Exec.Sentinels && failed && r.answered,
		Alone:           r.concurrency() == 1,
		Raw:             w.userLogs != nil,
		Waits:           waits,
	})
	took := w.wall().Sub(began)
	w.metrics.phase("logs", took)
	w.marks.logsEnd(r, took, got)
	if r.account != nil {
		r.account.LogsStart, r.account.Logs = began, took
	}
	if got.Incomplete {
		w.metrics.logsIncomplete.Inc()
	}
	if w.userLogs != nil {
		w.userLogs.Write(userLog(r.Message, r.action, rec, got.Raw))
	}
	return got.Lines
}
