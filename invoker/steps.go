package invoker

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StepObserver counts and times the work of adapters: requests to the database, pulls of
// images, answers at the invoker's own port. Steps have OpenWhisk's names, and package kamon
// makes its metrics from these. A nil StepObserver is a no-op.
type StepObserver struct {
	begun        *prometheus.CounterVec
	took, failed *prometheus.HistogramVec
	batches      prometheus.Histogram
	answers      *prometheus.HistogramVec
}

// NewStepObserver registers the metrics.
func NewStepObserver(reg prometheus.Registerer) *StepObserver {
	times := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(native(prometheus.HistogramOpts{Name: name, Help: help}), labels)
		reg.MustRegister(h)
		return h
	}
	batches := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "gpuwhisk", Name: "batch_documents",
		Help: "Documents in one request to the database that writes a batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 10)})
	reg.MustRegister(batches)
	return &StepObserver{
		batches: batches,
		begun:   maker{reg}.counter("steps_begun_total", "Requests to the database and pulls of images, by OpenWhisk's name for the step.", "step"),
		took:    times("step_seconds", "Time of requests to the database and of pulls of images that succeeded.", "step"),
		failed:  times("step_failed_seconds", "Time of requests to the database and of pulls of images that failed.", "step"),
		answers: times("http_seconds", "Time of requests at the invoker's own port.", "method", "status"),
	}
}

// Begin observes that a step begins; a batch has so many documents, other steps 0. The
// caller calls ended once, at the end of the step.
func (s *StepObserver) Begin(step string, documents int) (ended func(err error)) {
	if s == nil {
		return func(error) {}
	}
	began := time.Now()
	s.begun.WithLabelValues(step).Inc()
	if documents > 0 {
		s.batches.Observe(float64(documents))
	}
	return func(err error) {
		times := s.took
		if err != nil {
			times = s.failed
		}
		times.WithLabelValues(step).Observe(time.Since(began).Seconds())
	}
}

// ObserveRequest observes a request at the invoker's own port.
func (s *StepObserver) ObserveRequest(method string, status int, took time.Duration) {
	s.answers.WithLabelValues(methodLabel(method), fmt.Sprint(status)).Observe(took.Seconds())
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
