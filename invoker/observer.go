package invoker

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/proxy"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/explain"
)

// observer is called at each moment of an activation's life, by the goroutine in
// which it happens and before that goes on. It counts it, logs it as OpenWhisk
// does where that is asked for, and adds it to the activation's trace. Only the
// trace has no other place, so the methods below are the list of all that is
// observed. None blocks.
type observer struct {
	metrics  *Metrics
	markers  *logMarkers                   // nil: not asked for
	traces   *explain.Log                  // nil: none are kept
	exporter Tracer                        // nil: no traces are exported
	at       func(time.Duration) time.Time // an instant of the dispatcher's clock
}

// accepted is the begin.
func (o *observer) accepted(p *pending) {
	o.metrics.accepted.Inc()
	if !p.Completed {
		o.markers.info(p.TransID, ofReactive, "", "invoker_activation_start", noStep)
	}
	p.trace.ID, p.trace.Namespace, p.trace.Action = string(p.ActivationID), p.User.Namespace.Name, p.Action.FQN()
	p.trace.Accepted = o.at(p.accepted)
	if ms := p.TransID.StartMillis(); ms > 0 {
		p.trace.Sent = time.UnixMilli(ms)
	}
}

// interrupted is an activation that an earlier process had accepted: rerun,
// answered, completed or, where its end was known and is sent again, reported.
func (o *observer) interrupted(p *pending, how string) {
	o.metrics.interrupted.WithLabelValues(how).Inc()
	if how == "reported" {
		p.trace.Refused = "it had ended in an earlier process, which could not send all of its acks and its record; they were sent now."
	}
}

func (o *observer) fetched(p *pending, cached bool) {
	from, token := "datastore", "database_cacheMiss_counter"
	if cached {
		from, token = "cache", "database_cacheHit_counter"
	}
	o.markers.info(p.TransID, ofActions, "[GET] serving from "+from+": CacheKey("+p.Action.FQN()+")", token, noStep)
}

// refused is an activation that will not reach a container.
func (o *observer) refused(p *pending, r activation.Response) { p.trace.Refused = refusalText(r) }

func (o *observer) forwarded() { o.metrics.forwarded.Inc() }

// answered is the completion's sending.
func (o *observer) answered(p *pending, status int) {
	o.metrics.completions.WithLabelValues([...]string{"success", "application_error", "developer_error", "whisk_error"}[status&3]).Inc()
	p.trace.Answered, p.trace.Status, p.trace.Recorded = time.Now(), status, p.stored
}

func (o *observer) acked(p *pending, kind activation.AckKind, err error) {
	o.metrics.acks.WithLabelValues(kind.String(), outcome(err)).Inc()
	if err == nil && o.markers != nil {
		o.markers.info(p.TransID, ofAcks, fmt.Sprintf("posted %s of activation %s", kind, p.ActivationID), "", noStep)
	}
	if kind != activation.Result {
		p.trace.Acked = time.Now()
	}
}

// stored is the record's end; batch is how many records were in the same request, 0
// where that is not known.
func (o *observer) stored(p *pending, batch int, err error) {
	o.metrics.records.WithLabelValues(outcome(err)).Inc()
	if p.trace.Stored, p.trace.Batch = time.Now(), batch; err != nil {
		p.trace.Batch = explain.NoBatch
	}
}

// settled is the end: its acks and its record are safe.
func (o *observer) settled(p *pending) {
	p.trace.Completed = time.Now()
	o.traces.Add(p.trace)
	if o.exporter != nil {
		o.exporter.Ended(p.trace, p.TraceContext)
	}
}

// queued is its entry into the pool's or the GPU scheduler's queue.
func (o *observer) queued(p *pending, at time.Duration) {
	if t := p.trace; t.Queued.IsZero() { // else it was queued before
		t.Queued, t.Kind = o.at(at), p.action.Exec.Kind
	}
}

// blocked is, now and then, the activation that has waited longest for memory.
func (o *observer) blocked(p *pending, pool container.Stats) {
	o.markers.write(slog.LevelWarn, p.TransID, ofPool, fmt.Sprintf("Rescheduling Run message, too many message in the pool, "+
		"freePoolSize: %d containers and %d MB, busyPoolSize: %d containers and %d MB, maxContainersMemory %d MB, "+
		"userNamespace: %s, action: %s, needed memory: %d MB, waiting messages: %d",
		pool.Idle, pool.IdleMB, pool.Active, pool.ActiveMB, pool.MemoryMB, p.User.Namespace.Name, p.action.FQN(), p.action.Limits.MemoryMB, pool.Waiting),
		"", noStep)
}

// placed is an activation that got a container, or a token.
func (o *observer) placed(p *pending, at time.Duration, start, container string) {
	if p.gpu == nil {
		o.metrics.starts.WithLabelValues(start).Inc()
		o.metrics.wait.Observe((at - p.queued).Seconds())
	}
	p.trace.Granted, p.trace.Start, p.trace.Container = o.at(at), start, container
}

// runBegun is a run that has its container, before anything is done with that.
func (o *observer) runBegun(r *run) {
	runs := r.ctr.runs.Add(1)
	if o.markers == nil {
		return
	}
	in := "None"
	if r.start != container.Cold {
		in = "Some(" + containerID(r.ctr) + ")"
	}
	o.markers.info(r.TransID, ofPool, fmt.Sprintf(
		"containerStart containerState: %s container: %s activations: %d of max %d action: %s namespace: %s activationId: %s",
		r.start, in, runs, r.concurrency(), r.action.Name, r.User.Namespace.Name, r.ActivationID),
		"invoker_containerStart."+r.start.String()+"_counter", noStep)
}

func (o *observer) created(r *run, began time.Time, took time.Duration) {
	o.metrics.phases["create"].Observe(took.Seconds())
	r.trace.CreateStart, r.trace.Create = began, took
}

func (o *observer) initBegun(r *run) {
	if o.markers != nil {
		o.markers.info(r.TransID, ofContainer, "sending initialization to "+address(r.ctr), "invoker_activationInit_start", noStep)
	}
}

func (o *observer) initEnded(r *run, x proxy.Exchange) {
	o.metrics.phases["init"].Observe(x.Elapsed().Seconds())
	o.markers.info(r.TransID, ofContainer, "initialization result: "+brief(x), "invoker_activationInit_finish", x.Elapsed())
}

func (o *observer) runSent(r *run) {
	if o.markers != nil {
		o.markers.info(r.TransID, ofContainer, "sending arguments to /"+r.Action.FQN()+" at "+address(r.ctr), "invoker_activationRun_start", noStep)
	}
}

func (o *observer) runAnswered(r *run, x proxy.Exchange) {
	o.metrics.phases["run"].Observe(x.Elapsed().Seconds())
	o.markers.info(r.TransID, ofContainer, "running result: "+brief(x), "invoker_activationRun_finish", x.Elapsed())
}

func (o *observer) logsBegun(r *run) {
	o.markers.info(r.TransID, ofProxy, "", "invoker_collectLogs_start", noStep)
}

func (o *observer) logsRead(r *run, began time.Time, took time.Duration, got container.LogResult) {
	o.metrics.phases["logs"].Observe(took.Seconds())
	if got.Incomplete {
		o.metrics.logsIncomplete.Inc()
	}
	if got.Incomplete || got.Truncated { // what the original counts as an error
		o.markers.write(slog.LevelWarn, r.TransID, ofProxy, "reading logs failed: lines are missing", "invoker_collectLogs_error", took)
	} else {
		o.markers.info(r.TransID, ofProxy, "", "invoker_collectLogs_finish", took)
	}
	r.trace.LogsStart, r.trace.Logs = began, took
}

// rescheduled is a run whose container was gone before it began.
func (o *observer) rescheduled(r *run) {
	o.metrics.rescheduled.Inc()
	r.trace.Again++
}

// runLeft is a run that has left its container.
func (o *observer) runLeft(r *run) { r.ctr.runs.Add(-1) }

// runEnded is a run of which all that its worker sees is known.
func (o *observer) runEnded(r *run, now time.Duration) {
	t := r.trace
	t.InitStart, t.InitEnd = r.at.initStart, r.at.initEnd
	t.RunStart, t.RunEnd = r.at.runStart, r.at.runEnd
	t.TimedOut = timedOut(r.action, r.at)
	if l := r.lease; l != nil && t.GPU != nil {
		t.GPU.Moved, t.GPU.Memory = l.transfer.time(now), l.memory.Load()
		if l.transfer != nil {
			t.GPU.MoveStart = o.at(l.transfer.began)
		}
	}
}

// command is a command to the container engine, in the words of Docker's command
// line. ended is called when it has ended.
func (o *observer) command(t activation.TransID, name, about string) (ended func(error)) {
	logEnd := o.markers.begin(t, ofDocker, "running docker "+name+" "+about, "invoker_docker."+name)
	return func(err error) { logEnd("", err) }
}
