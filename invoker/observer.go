package invoker

import (
	"cmp"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// observer is called at each step of an activation's life, by the goroutine that takes the
// step. It counts the step and adds it to the activation's trace. Its methods do not block.
type observer struct {
	metrics  *Metrics
	traces   *explain.Log                  // nil: none are kept
	exporter Tracer                        // nil: no traces are exported
	instant  func(time.Duration) time.Time // an instant of the dispatcher's clock
}

// accepted counts an accepted activation and begins its trace.
func (o *observer) accepted(p *pending) {
	o.metrics.accepted.Inc()
	p.trace.ID, p.trace.Namespace, p.trace.Action = string(p.ActivationID), p.User.Namespace.Name, p.Action.FQN()
	p.trace.Accepted = o.instant(p.accepted)
	if ms := p.TransID.StartMillis(); ms > 0 {
		p.trace.Sent = time.UnixMilli(ms)
	}
}

// interrupted counts an activation that an earlier process had accepted. how is "rerun",
// "answered", "completed", or "reported" if the end was known and is sent again.
func (o *observer) interrupted(p *pending, how string) {
	o.metrics.interrupted.WithLabelValues(how).Inc()
	if how == "reported" {
		p.trace.Refused = "it had ended in an earlier process, which could not send all of its acks and its record; they were sent now."
	}
}

// refused records why an activation will not reach a container.
func (o *observer) refused(p *pending, e ending) {
	p.trace.Refused = cmp.Or(e.cause, refusalText(e.response))
}

func (o *observer) forwarded() { o.metrics.forwarded.Inc() }

// outcomes are the labels of completions by status code.
var outcomes = [...]string{
	activation.StatusSuccess: "success", activation.StatusApplicationError: "application_error",
	activation.StatusDeveloperError: "developer_error", activation.StatusWhiskError: "whisk_error",
}

// answered records that the completion is sent.
func (o *observer) answered(p *pending, e delivery.End) {
	status := e.Record.Response.StatusCode
	o.metrics.completions.WithLabelValues(outcomes[min(max(status, 0), len(outcomes)-1)]).Inc()
	p.trace.Answered, p.trace.Status, p.trace.Recorded = time.Now(), status, e.Store
}

func (o *observer) acked(p *pending, kind activation.AckKind, err error) {
	o.metrics.acks.WithLabelValues(kind.String(), outcome(err)).Inc()
	if kind != activation.Result {
		p.trace.Acked = time.Now()
	}
}

// stored records that the database has the record or refused it. batch is the number of
// records in the same request, 0 if it is not known.
func (o *observer) stored(p *pending, batch int, err error) {
	o.metrics.records.WithLabelValues(outcome(err)).Inc()
	if p.trace.Stored, p.trace.Batch = time.Now(), batch; err != nil {
		p.trace.Batch = explain.NoBatch
	}
}

// settled ends the trace: the acks and the record are safe.
func (o *observer) settled(p *pending) {
	p.trace.Completed = time.Now()
	o.traces.Add(&p.trace)
	if o.exporter != nil {
		o.exporter.Ended(&p.trace, p.TraceContext)
	}
}

// queued records that an activation enters the queue of the pool or of the GPU scheduler.
func (o *observer) queued(p *pending, at time.Duration) {
	if t := &p.trace; t.Queued.IsZero() { // it was not queued before
		t.Queued, t.Kind = o.instant(at), p.action.Exec.Kind
	}
}

// placed records that an activation got a container or a token.
func (o *observer) placed(p *pending, at time.Duration, start, container string) {
	if p.gpu == nil {
		o.metrics.starts.WithLabelValues(start).Inc()
		o.metrics.wait.Observe((at - p.queued).Seconds())
	}
	p.trace.Granted, p.trace.Start, p.trace.Container = o.instant(at), start, container
}

func (o *observer) created(r *run, began time.Time, took time.Duration) {
	o.metrics.phases["create"].Observe(took.Seconds())
	r.trace.CreateStart, r.trace.Create = began, took
}

func (o *observer) initEnded(r *run, x proxy.Exchange) {
	o.metrics.phases["init"].Observe(x.Elapsed().Seconds())
	r.trace.InitStart, r.trace.InitEnd = x.Start, x.End
}

func (o *observer) runAnswered(r *run, x proxy.Exchange) {
	o.metrics.phases["run"].Observe(x.Elapsed().Seconds())
	r.trace.RunStart, r.trace.RunEnd = x.Start, x.End
}

func (o *observer) logsRead(r *run, began time.Time, took time.Duration, got container.LogResult) {
	o.metrics.phases["logs"].Observe(took.Seconds())
	if got.Incomplete {
		o.metrics.logsIncomplete.Inc()
	}
	r.trace.LogsStart, r.trace.Logs = began, took
}

// rescheduled counts a run whose container was lost before the run began.
func (o *observer) rescheduled(r *run) {
	o.metrics.rescheduled.Inc()
	r.trace.Again++
}

// leftGPU adds the memory of a run on a GPU to the trace. Its worker calls it last.
func (o *observer) leftGPU(r *run, now time.Duration) {
	l, g := r.lease, r.trace.GPU
	if g == nil {
		return
	}
	g.Moved, g.Memory = l.transfer.time(now), l.memory.Load()
	if l.transfer != nil {
		g.MoveStart = o.instant(l.transfer.began)
	}
}
