package invoker

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/steps"
	"github.com/prometheus/client_golang/prometheus"
)

// Steps hears of what adapters do: it counts and times it, and where METRICS_LOG
// is on it writes what OpenWhisk's invoker says of the same. It is a
// steps.Listener. A nil one hears nothing.
type Steps struct {
	marks        *marks // nil: nothing is written
	begun        series[prometheus.Counter]
	took, failed series[prometheus.Observer]
	batches      prometheus.Histogram
	answers      *prometheus.HistogramVec
}

// NewSteps registers the metrics.
func NewSteps(marked bool, reg prometheus.Registerer, log *slog.Logger) *Steps {
	times := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(native(prometheus.HistogramOpts{Name: name, Help: help}), labels)
		reg.MustRegister(h)
		return h
	}
	batches := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "gpuwhisk", Name: "batch_documents",
		Help: "Documents in one request to the database that writes a batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 10)})
	reg.MustRegister(batches)
	return &Steps{
		batches: batches,
		marks:   newMarks(Settings{Marks: marked}, log),
		begun:   newSeries(maker{reg}.counter("steps_begun_total", "Requests to the database and pulls of images, by OpenWhisk's name for the step.", "step").WithLabelValues),
		took:    newSeries(times("step_seconds", "Time of requests to the database and of pulls of images that succeeded.", "step").WithLabelValues),
		failed:  newSeries(times("step_failed_seconds", "Time of requests to the database and of pulls of images that failed.", "step").WithLabelValues),
		answers: times("http_seconds", "Time of requests at the invoker's own port.", "method", "status"),
	}
}

// Begins implements steps.Listener.
func (s *Steps) Begins(t activation.TransID, step steps.Step) (ended func(text string, err error)) {
	if s == nil {
		return func(string, error) {}
	}
	began := time.Now()
	s.begun.of(step.Token).Inc()
	if step.Documents > 0 {
		s.batches.Observe(float64(step.Documents))
	}
	s.marks.stepBegins(t, step)
	return func(text string, err error) {
		took := time.Since(began)
		if err != nil {
			s.failed.of(step.Token).Observe(took.Seconds())
		} else {
			s.took.of(step.Token).Observe(took.Seconds())
		}
		s.marks.stepEnds(t, step, text, err, took)
	}
}

// Saves is the step of one record on its way to the store of that name, and what
// is said when it is done.
func (s *Steps) Saves(store, id string) (step steps.Step, done string) {
	step = steps.Step{Token: "database_saveDocument", Class: ofStore, System: "sid_invoker"}
	if s == nil || s.marks == nil {
		return step, "" // nobody reads it
	}
	step.Text = "[PUT] '" + store + "' saving document: 'id: " + id + ", rev: null'"
	return step, "[PUT] '" + store + "' completed document: 'id: " + id + ", rev: null'"
}

// Answered tells of a request at the invoker's own port.
func (s *Steps) Answered(method, path string, status int, id string, took time.Duration) {
	if s == nil {
		return
	}
	method = strings.ToLower(method)
	if len(method) > len("options") { // a word of the caller's own
		method = "other"
	}
	s.answers.WithLabelValues(method, fmt.Sprint(status)).Observe(took.Seconds())
	if s.marks == nil || path == "/ping" || path == "/metrics" { // the original tells of these at debug level
		return
	}
	t := activation.NewTransID(id, time.Now().Add(-took).UnixMilli(), false)
	s.marks.say(slog.LevelInfo, t, ofDoor, "", fmt.Sprintf("http_%s.%d_counter", method, status), took)
}

func (m *marks) stepBegins(t activation.TransID, step steps.Step) {
	if m != nil {
		m.say(slog.LevelInfo, t, step.Class, step.Text, step.Token+"_start", noStep)
	}
}

func (m *marks) stepEnds(t activation.TransID, step steps.Step, text string, err error, took time.Duration) {
	switch {
	case m == nil:
	case err != nil:
		m.say(slog.LevelError, t, step.Class, err.Error(), step.Token+"_error", took)
	default:
		m.say(slog.LevelInfo, t, step.Class, text, step.Token+"_finish", took)
	}
}
