package invoker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/spans"
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
// A nil one writes nothing.
type logMarkers struct {
	log *slog.Logger
}

func newLogMarkers(on bool, log *slog.Logger) *logMarkers {
	if !on {
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
	if lm == nil {
		return
	}
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

func (lm *logMarkers) info(t activation.TransID, class, text, token string, step time.Duration) {
	lm.write(slog.LevelInfo, t, class, text, token, step)
}

// begin writes that a step begins; ended writes how it ended.
func (lm *logMarkers) begin(t activation.TransID, class, text, token string) (ended func(text string, err error)) {
	began := time.Now()
	lm.info(t, class, text, token+"_start", noStep)
	return func(text string, err error) {
		if err != nil {
			lm.write(slog.LevelError, t, class, err.Error(), token+"_error", time.Since(began))
			return
		}
		lm.info(t, class, text, token+"_finish", time.Since(began))
	}
}

// rescheduleEvery is how often activations that wait for memory are logged.
const rescheduleEvery = 10 * time.Second

// reportBlocked observes the activation that has waited longest for memory.
func (d *dispatcher) reportBlocked(now time.Duration) {
	if d.observe.markers == nil || len(d.queued) == 0 || now < d.blockedReported {
		return
	}
	d.blockedReported = now + rescheduleEvery
	d.observe.blocked(d.queued[slices.Min(slices.Collect(maps.Keys(d.queued)))], d.pool.Stats())
}

func containerID(ctr *actionContainer) string { return "ContainerId(" + string(ctr.handle.ID) + ")" }

func address(ctr *actionContainer) string {
	host, port, err := net.SplitHostPort(ctr.handle.Addr)
	if err != nil {
		host, port = ctr.handle.Addr, "8080"
	}
	return fmt.Sprintf("%s ContainerAddress(%s,%s)", containerID(ctr), host, port)
}

// brief is the outcome of a call.
func brief(x proxy.Exchange) string {
	switch {
	case x.Failure != proxy.None:
		return x.Failure.String()
	case x.Status >= 200 && x.Status < 300:
		return "ok"
	}
	return "not ok"
}

// SpanObserver observes what adapters do: it counts and times it, and where
// METRICS_LOG is on it writes what OpenWhisk's invoker logs of the same. It is a
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
		logMarkers: newLogMarkers(withMarkers, log),
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
	logEnd := s.logMarkers.begin(t, step.Class, step.Text, step.Token)
	return func(text string, err error) {
		took := time.Since(began)
		if err != nil {
			s.failed.WithLabelValues(step.Token).Observe(took.Seconds())
		} else {
			s.took.WithLabelValues(step.Token).Observe(took.Seconds())
		}
		logEnd(text, err)
	}
}

// SaveSpan is the step of one record on its way to the store of that name, and the
// text at its end.
func (s *SpanObserver) SaveSpan(store, id string) (step spans.Span, done string) {
	step = spans.Span{Token: "database_saveDocument", Class: ofStore, System: "sid_invoker"}
	if s == nil || s.logMarkers == nil {
		return step, "" // the texts are not written
	}
	step.Text = "[PUT] '" + store + "' saving document: 'id: " + id + ", rev: null'"
	return step, "[PUT] '" + store + "' completed document: 'id: " + id + ", rev: null'"
}

// ObserveRequest observes a request at the invoker's own port.
func (s *SpanObserver) ObserveRequest(method, path string, status int, id string, took time.Duration) {
	if s == nil {
		return
	}
	method = methodLabel(method)
	s.answers.WithLabelValues(method, fmt.Sprint(status)).Observe(took.Seconds())
	if s.logMarkers == nil || path == "/ping" || path == "/metrics" { // the original logs these at debug level
		return
	}
	t := activation.NewTransID(id, time.Now().Add(-took).UnixMilli(), false)
	s.logMarkers.write(slog.LevelInfo, t, ofHTTP, "", fmt.Sprintf("http_%s.%d_counter", method, status), took)
}

// methodLabel returns the label value of a request's method. A client can make up any
// number of methods, so all but HTTP's own are "other".
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return strings.ToLower(method)
	}
	return "other"
}
