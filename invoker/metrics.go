package invoker

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
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
)

// Metrics is what the hallway counts.
type Metrics struct {
	accepted       prometheus.Counter
	starts         *prometheus.CounterVec
	wait           prometheus.Histogram
	phases         map[string]prometheus.Observer
	acks           *prometheus.CounterVec
	records        *prometheus.CounterVec
	completions    *prometheus.CounterVec
	rescheduled    prometheus.Counter
	logsIncomplete prometheus.Counter
	gpuStarts      *prometheus.CounterVec
	gpuSeconds     *prometheus.CounterVec
	gpuMoved       *prometheus.CounterVec
	gpuResident    *prometheus.GaugeVec
	gpuUtilization *prometheus.GaugeVec
	gpuLost        *prometheus.GaugeVec
	gpuQueue       prometheus.Histogram
}

// latency is the buckets of all times: from half a millisecond to a minute.
var latency = prometheus.ExponentialBucketsRange(0.0005, 60, 18)

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "gpuwhisk", Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "gpuwhisk", Name: name, Help: help}, labels)
		reg.MustRegister(g)
		return g
	}
	histogram := func(name, help string) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "gpuwhisk", Name: name, Help: help, Buckets: latency})
		reg.MustRegister(h)
		return h
	}
	m := &Metrics{
		accepted:       counter("activations_accepted_total", "Activation messages taken from Kafka.").WithLabelValues(),
		starts:         counter("container_starts_total", "Runs by the state of the container they got (warmed, prewarmed, cold).", "state"),
		wait:           histogram("container_wait_seconds", "Time from acceptance to a container, CPU lane."),
		acks:           counter("acks_total", "Acks by kind and outcome.", "kind", "outcome"),
		records:        counter("records_total", "Activation records by outcome.", "outcome"),
		completions:    counter("activations_completed_total", "Completed activations by status code.", "status"),
		rescheduled:    counter("activations_rescheduled_total", "Activations that found their container gone and went to another.").WithLabelValues(),
		logsIncomplete: counter("logs_incomplete_total", "Activations whose log lines could not all be read.").WithLabelValues(),
		gpuStarts:      counter("gpu_starts_total", "GPU runs by start kind.", "kind"),
		gpuSeconds:     counter("gpu_seconds_total", "GPU service by namespace and action.", "namespace", "action"),
		gpuMoved:       counter("gpu_moved_bytes_total", "Device memory moved, by namespace, action and direction.", "namespace", "action", "direction"),
		gpuResident:    gauge("gpu_resident_bytes", "Memory on devices that containers hold, by namespace and action.", "namespace", "action"),
		gpuUtilization: gauge("gpu_utilization", "Moving average of the share of time in which a device ran a kernel.", "device"),
		gpuLost:        gauge("gpu_lost", "1 for a device that cannot be used.", "device"),
		gpuQueue:       histogram("gpu_queue_seconds", "Time from acceptance to a GPU token."),
	}
	phases := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "gpuwhisk", Name: "phase_seconds", Buckets: latency,
		Help: "Time of each phase of a run: create, init, run, logs.",
	}, []string{"phase"})
	reg.MustRegister(phases)
	m.phases = map[string]prometheus.Observer{}
	for _, p := range []string{"create", "init", "run", "logs"} {
		m.phases[p] = phases.WithLabelValues(p)
	}
	return m
}

func (m *Metrics) started(state string)               { m.starts.WithLabelValues(state).Inc() }
func (m *Metrics) waited(d time.Duration)             { m.wait.Observe(d.Seconds()) }
func (m *Metrics) phase(name string, d time.Duration) { m.phases[name].Observe(d.Seconds()) }

func (m *Metrics) acked(kind activation.AckKind, err error) {
	m.acks.WithLabelValues(kind.String(), outcome(err)).Inc()
}

func (m *Metrics) stored(err error) { m.records.WithLabelValues(outcome(err)).Inc() }

func (m *Metrics) completed(status int) {
	m.completions.WithLabelValues([...]string{"success", "application_error", "developer_error", "whisk_error"}[status&3]).Inc()
}

// served counts what a run of a flow used of a device.
func (m *Metrics) served(f sched.FlowID, service time.Duration) {
	m.gpuSeconds.WithLabelValues(f.Namespace, f.Function).Add(max(0, service.Seconds()))
}

// moved counts memory that was moved.
func (m *Metrics) moved(f sched.FlowID, kind gpu.OrderKind, bytes int64) {
	if bytes > 0 {
		m.gpuMoved.WithLabelValues(f.Namespace, f.Function, kind.String()).Add(float64(bytes))
	}
}

func (m *Metrics) lost(d *device, lost bool) {
	value := 0.0
	if lost {
		value = 1
	}
	m.gpuLost.WithLabelValues(d.String()).Set(value)
}

// forget drops the series of a flow that is no more: there may be very many
// flows in an invoker's life.
func (m *Metrics) forget(f sched.FlowID) {
	of := prometheus.Labels{"namespace": f.Namespace, "action": f.Function}
	m.gpuSeconds.DeletePartialMatch(of)
	m.gpuMoved.DeletePartialMatch(of)
	m.gpuResident.DeletePartialMatch(of)
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
