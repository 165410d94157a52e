package invoker

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/sched"
	"github.com/prometheus/client_golang/prometheus"
)

// Keys of log attributes, the same everywhere.
const (
	keyTransID    = "transid"
	keyActivation = "activation"
	keyContainer  = "container"
	keyAction     = "action"
	keyFlow       = "flow"
	keyDevice     = "device"
	keyChild      = "child" // a transaction below another, which keyTransID has then
	keyClass      = "class" // of OpenWhisk that says the same
)

// Metrics is what the invoker counts.
type Metrics struct {
	accepted       prometheus.Counter
	starts         series[prometheus.Counter]
	wait           prometheus.Histogram
	phases         map[string]prometheus.Observer
	acks           [activation.Combined + 1]series[prometheus.Counter] // by kind, of outcomes
	records        series[prometheus.Counter]
	completions    series[prometheus.Counter]
	rescheduled    prometheus.Counter
	inherited      prometheus.Counter
	discarded      prometheus.Counter
	forwarded      prometheus.Counter
	interrupted    *prometheus.CounterVec
	logsIncomplete prometheus.Counter
	gpuStarts      *prometheus.CounterVec
	gpuSeconds     *prometheus.CounterVec
	gpuMoved       *prometheus.CounterVec
	gpuResident    *prometheus.GaugeVec
	gpuUtilization *prometheus.GaugeVec
	gpuLost        *prometheus.GaugeVec
	gpuQueue       prometheus.Histogram
	gpuWaits       *prometheus.HistogramVec
	waiters        map[sched.FlowID]bool // that gpuWaits has a series of; the dispatcher's
}

// Latency is the buckets of all times: from a millisecond to the longest that an
// action may be given.
func Latency() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
}

// native makes a histogram a native one too, for whoever asks for that. Its
// error is a tenth at most.
func native(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	o.Namespace, o.Buckets = "gpuwhisk", Latency()
	o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = 1.1, 100
	o.NativeHistogramMinResetDuration = time.Hour
	return o
}

// NewMetrics registers the metrics: those of each function, of which there may be
// thousands, apart from the others, which somebody may want to read often.
func NewMetrics(reg, functions prometheus.Registerer) *Metrics {
	r := maker{reg}
	m := &Metrics{
		accepted:       r.counter("activations_accepted_total", "Activation messages taken from Kafka.").WithLabelValues(),
		starts:         newSeries(r.counter("container_starts_total", "Runs by the state of the container they got (warmed, prewarmed, cold).", "state").WithLabelValues),
		wait:           r.histogram("container_wait_seconds", "Time from acceptance to a container, CPU lane."),
		records:        newSeries(r.counter("records_total", "Activation records by outcome.", "outcome").WithLabelValues),
		completions:    newSeries(r.counter("activations_completed_total", "Completed activations by status code.", "status").WithLabelValues),
		rescheduled:    r.counter("activations_rescheduled_total", "Activations that found their container gone and went to another.").WithLabelValues(),
		inherited:      r.counter("containers_adopted_total", "Containers of an earlier process that were taken over.").WithLabelValues(),
		discarded:      r.counter("containers_discarded_total", "Containers of an earlier process that could not be taken over and were removed.").WithLabelValues(),
		forwarded:      r.counter("activations_forwarded_total", "Activations that were passed on to invokers with a GPU.").WithLabelValues(),
		interrupted:    r.counter("activations_interrupted_total", "Activations that an earlier process had accepted and not let go of: run again, answered with an error, or found completed.", "how"),
		logsIncomplete: r.counter("logs_incomplete_total", "Activations whose log lines could not all be read.").WithLabelValues(),
	}
	phases := prometheus.NewHistogramVec(native(prometheus.HistogramOpts{
		Name: "phase_seconds", Help: "Time of each phase of a run: create, init, run, logs.",
	}), []string{"phase"})
	reg.MustRegister(phases)
	m.phases = map[string]prometheus.Observer{}
	for _, p := range []string{"create", "init", "run", "logs"} {
		m.phases[p] = phases.WithLabelValues(p)
	}
	// What counts as an error when it grows is there before the first one: from
	// nothing to one is no growth to Prometheus.
	acks := r.counter("acks_total", "Acks by kind and outcome.", "kind", "outcome")
	for kind := range m.acks {
		m.acks[kind] = newSeries(acks.MustCurryWith(prometheus.Labels{"kind": activation.AckKind(kind).String()}).WithLabelValues)
	}
	for _, o := range []string{"ok", "error"} {
		m.records.of(o)
		for kind := range m.acks {
			m.acks[kind].of(o)
		}
	}
	m.gpus(r)
	m.functions(maker{functions})
	return m
}

// maker makes and registers metrics.
type maker struct{ reg prometheus.Registerer }

func (r maker) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "gpuwhisk", Name: name, Help: help}, labels)
	r.reg.MustRegister(c)
	return c
}

func (r maker) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "gpuwhisk", Name: name, Help: help}, labels)
	r.reg.MustRegister(g)
	return g
}

func (r maker) histogram(name, help string) prometheus.Histogram {
	h := prometheus.NewHistogram(native(prometheus.HistogramOpts{Name: name, Help: help}))
	r.reg.MustRegister(h)
	return h
}

func (m *Metrics) started(state string)               { m.starts.of(state).Inc() }
func (m *Metrics) waited(d time.Duration)             { m.wait.Observe(d.Seconds()) }
func (m *Metrics) phase(name string, d time.Duration) { m.phases[name].Observe(d.Seconds()) }

func (m *Metrics) acked(kind activation.AckKind, err error) {
	m.acks[kind].of(outcome(err)).Inc()
}

func (m *Metrics) stored(err error) { m.records.of(outcome(err)).Inc() }

func (m *Metrics) completed(status int) {
	m.completions.of([...]string{"success", "application_error", "developer_error", "whisk_error"}[status&3]).Inc()
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
