package invoker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/spans"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// logMarkers writes what OpenWhisk's invoker logs of each step where METRICS_LOG is on:
// its texts, from its classes, each with a marker at its end that pipelines read
// times from (OpenWhisk: TransactionId.started, LoggingMarkers):
//
//	... [marker:invoker_activationRun_finish:412:37]
//
// the milliseconds since the transaction began, and those of the step.
type logMarkers struct {
	log *slog.Logger
}

func newLogMarkers(s Settings, log *slog.Logger) *logMarkers {
	if !s.LogMarkers {
		return nil
	}
	return &logMarkers{log}
}

// Transactions of what belongs to no activation.
const (
	maintenanceTID = "sid_invokerNanny"
	warmupTID      = "sid_invokerWarmup"
)

// Classes that log it in the original.
const (
	ofReactive  = "InvokerReactive"
	ofPool      = "ContainerPool"
	ofProxy     = "ContainerProxy"
	ofContainer = "DockerContainer"
	ofDocker    = "DockerClientWithFileAccess"
	ofAcks      = "MessagingActiveAck"
	ofActions   = "WhiskAction"
	ofStore     = "CouchDbRestStore"
	ofHTTP      = "BasicHttpService"
)

// write writes a line of a transaction. A marker without a step has one number.
func (lm *logMarkers) write(level slog.Level, t activation.TransID, class, text, token string, step time.Duration) {
	if token != "" {
		text += fmt.Sprintf(" [marker:%s:%d", token, max(0, time.Now().UnixMilli()-t.StartMillis()))
		if step >= 0 {
			text += fmt.Sprintf(":%d", step.Milliseconds())
		}
		text += "]"
	}
	root, own := t.Root(), t.ID()
	if own == root {
		own = ""
	}
	lm.log.LogAttrs(context.Background(), level, text,
		slog.String(keyTransID, root), slog.String(keyChild, own), slog.String(keyClass, class))
}

// noStep is the duration of what takes none.
const noStep = -1

// observe implements an observer. Lines of which the pipelines take times have a
// token, the others have none.
func (lm *logMarkers) observe(o observation) {
	switch o := o.(type) {
	case onAccepted:
		if o.over {
			return
		}
		lm.info(o.p.TransID, ofReactive, "", "invoker_activation_start", noStep)
	case onFetched:
		lm.fetched(o.p, o.cached)
	case onBlocked:
		lm.blocked(o.act, o.pool)
	case onRunBegun:
		lm.runBegun(o.r)
	case onRunLeft:
		o.r.ctr.runs.Add(-1)
	case onInitBegun:
		lm.info(o.r.TransID, ofContainer, "sending initialization to "+address(o.r.ctr), "invoker_activationInit_start", noStep)
	case onInitEnded:
		lm.info(o.r.TransID, ofContainer, "initialization result: "+brief(o.x), "invoker_activationInit_finish", o.x.Elapsed())
	case onRunSent:
		lm.info(o.r.TransID, ofContainer, "sending arguments to /"+o.r.Action.FQN()+" at "+address(o.r.ctr), "invoker_activationRun_start", noStep)
	case onRunAnswered:
		lm.info(o.r.TransID, ofContainer, "running result: "+brief(o.x), "invoker_activationRun_finish", o.x.Elapsed())
	case onLogsBegun:
		lm.info(o.r.TransID, ofProxy, "", "invoker_collectLogs_start", noStep)
	case onLogsRead:
		if o.got.Incomplete || o.got.Truncated { // what the original counts as an error
			lm.write(slog.LevelWarn, o.r.TransID, ofProxy, "reading logs failed: lines are missing", "invoker_collectLogs_error", o.took)
			return
		}
		lm.info(o.r.TransID, ofProxy, "", "invoker_collectLogs_finish", o.took)
	case onCommand:
		lm.info(o.transID, ofDocker, "running docker "+o.name+" "+o.about, "invoker_docker."+o.name+"_start", noStep)
	case onCommandEnded:
		if o.err != nil {
			lm.write(slog.LevelError, o.transID, ofDocker, o.err.Error(), "invoker_docker."+o.name+"_error", o.took)
			return
		}
		lm.info(o.transID, ofDocker, "", "invoker_docker."+o.name+"_finish", o.took)
	case onAcked:
		if o.err == nil {
			lm.info(o.p.TransID, ofAcks, fmt.Sprintf("posted %s of activation %s", o.kind, o.p.ActivationID), "", noStep)
		}
	}
}

func (lm *logMarkers) info(t activation.TransID, class, text, token string, step time.Duration) {
	lm.write(slog.LevelInfo, t, class, text, token, step)
}

// rescheduleEvery is how often activations that wait for memory are logged.
const rescheduleEvery = 10 * time.Second

// waiting observes the activation that has waited longest for memory.
func (d *dispatcher) waiting(now time.Duration) {
	if !d.settings.LogMarkers || len(d.queued) == 0 || now < d.waitingReported {
		return
	}
	d.waitingReported = now + rescheduleEvery
	d.observers.notify(onBlocked{d.queued[slices.Min(slices.Collect(maps.Keys(d.queued)))], d.pool.Stats()})
}

func (lm *logMarkers) blocked(act *routed, p container.Stats) {
	lm.write(slog.LevelWarn, act.TransID, ofPool, fmt.Sprintf("Rescheduling Run message, too many message in the pool, "+
		"freePoolSize: %d containers and %d MB, busyPoolSize: %d containers and %d MB, maxContainersMemory %d MB, "+
		"userNamespace: %s, action: %s, needed memory: %d MB, waiting messages: %d",
		p.Idle, p.IdleMB, p.Active, p.ActiveMB, p.MemoryMB, act.User.Namespace.Name, act.action.FQN(), act.action.Limits.MemoryMB, p.Waiting),
		"", noStep)
}

// runBegun writes what container a run got, before anything is done with it.
func (lm *logMarkers) runBegun(r *run) {
	in := "None"
	if r.start != container.Cold {
		in = "Some(" + containerID(r.ctr) + ")"
	}
	lm.info(r.TransID, ofPool, fmt.Sprintf(
		"containerStart containerState: %s container: %s activations: %d of max %d action: %s namespace: %s activationId: %s",
		r.start, in, r.ctr.runs.Add(1), r.concurrency(), r.action.Name, r.User.Namespace.Name, r.ActivationID),
		"invoker_containerStart."+r.start.String()+"_counter", noStep)
}

// fetched writes where an activation's action comes from.
func (lm *logMarkers) fetched(p *pending, cached bool) {
	from, token := "datastore", "database_cacheMiss_counter"
	if cached {
		from, token = "cache", "database_cacheHit_counter"
	}
	lm.info(p.TransID, ofActions, "[GET] serving from "+from+": CacheKey("+p.Action.FQN()+")", token, noStep)
}

func containerID(ctr *actionContainer) string { return "ContainerId(" + string(ctr.handle.ID) + ")" }

func address(ctr *actionContainer) string {
	host, port, err := net.SplitHostPort(ctr.handle.Addr)
	if err != nil {
		host, port = ctr.handle.Addr, "8080"
	}
	return fmt.Sprintf("%s ContainerAddress(%s,%s)", containerID(ctr), host, port)
}

// brief is the outcome of a call in a word or two.
func brief(x proxy.Exchange) string {
	switch {
	case x.Failure != proxy.None:
		return x.Failure.String()
	case x.Status >= 200 && x.Status < 300:
		return "ok"
	}
	return "not ok"
}

// SpanObserver receives what adapters do: it counts and times it, and where METRICS_LOG
// is on it writes what OpenWhisk's invoker logs of the same. It is a
// spans.Listener. A nil one ignores all.
type SpanObserver struct {
	logMarkers   *logMarkers // nil: nothing is written
	begun        *prometheus.CounterVec
	took, failed *prometheus.HistogramVec
	batches      prometheus.Histogram
	answers      *prometheus.HistogramVec
}

// NewSpanObserver registers the metrics.
func NewSpanObserver(withMarkers bool, reg prometheus.Registerer, log *slog.Logger) *SpanObserver {
	times := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(native(prometheus.HistogramOpts{Name: name, Help: help}), labels)
		reg.MustRegister(h)
		return h
	}
	batches := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "gpuwhisk", Name: "batch_documents",
		Help: "Documents in one request to the database that writes a batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 10)})
	reg.MustRegister(batches)
	return &SpanObserver{
		batches:    batches,
		logMarkers: newLogMarkers(Settings{LogMarkers: withMarkers}, log),
		begun:      maker{reg}.counter("steps_begun_total", "Requests to the database and pulls of images, by OpenWhisk's name for the step.", "step"),
		took:       times("step_seconds", "Time of requests to the database and of pulls of images that succeeded.", "step"),
		failed:     times("step_failed_seconds", "Time of requests to the database and of pulls of images that failed.", "step"),
		answers:    times("http_seconds", "Time of requests at the invoker's own port.", "method", "status"),
	}
}

// Begins implements spans.Listener.
func (s *SpanObserver) Begins(t activation.TransID, step spans.Span) (ended func(text string, err error)) {
	if s == nil {
		return func(string, error) {}
	}
	began := time.Now()
	s.begun.WithLabelValues(step.Token).Inc()
	if step.Documents > 0 {
		s.batches.Observe(float64(step.Documents))
	}
	s.logMarkers.stepBegins(t, step)
	return func(text string, err error) {
		took := time.Since(began)
		if err != nil {
			s.failed.WithLabelValues(step.Token).Observe(took.Seconds())
		} else {
			s.took.WithLabelValues(step.Token).Observe(took.Seconds())
		}
		s.logMarkers.stepEnds(t, step, text, err, took)
	}
}

// SaveSpan is the step of one record on its way to the store of that name, and what
// is said when it is done.
func (s *SpanObserver) SaveSpan(store, id string) (step spans.Span, done string) {
	step = spans.Span{Token: "database_saveDocument", Class: ofStore, System: "sid_invoker"}
	if s == nil || s.logMarkers == nil {
		return step, "" // nobody reads it
	}
	step.Text = "[PUT] '" + store + "' saving document: 'id: " + id + ", rev: null'"
	return step, "[PUT] '" + store + "' completed document: 'id: " + id + ", rev: null'"
}

// ObserveRequest observes a request at the invoker's own port.
func (s *SpanObserver) ObserveRequest(method, path string, status int, id string, took time.Duration) {
	if s == nil {
		return
	}
	method = strings.ToLower(method)
	if len(method) > len("options") { // a word of the caller's own
		method = "other"
	}
	s.answers.WithLabelValues(method, fmt.Sprint(status)).Observe(took.Seconds())
	if s.logMarkers == nil || path == "/ping" || path == "/metrics" { // the original tells of these at debug level
		return
	}
	t := activation.NewTransID(id, time.Now().Add(-took).UnixMilli(), false)
	s.logMarkers.write(slog.LevelInfo, t, ofHTTP, "", fmt.Sprintf("http_%s.%d_counter", method, status), took)
}

func (lm *logMarkers) stepBegins(t activation.TransID, step spans.Span) {
	if lm != nil {
		lm.write(slog.LevelInfo, t, step.Class, step.Text, step.Token+"_start", noStep)
	}
}

func (lm *logMarkers) stepEnds(t activation.TransID, step spans.Span, text string, err error, took time.Duration) {
	switch {
	case lm == nil:
	case err != nil:
		lm.write(slog.LevelError, t, step.Class, err.Error(), step.Token+"_error", took)
	default:
		lm.write(slog.LevelInfo, t, step.Class, text, step.Token+"_finish", took)
	}
}
