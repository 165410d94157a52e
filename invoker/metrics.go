package invoker

import (
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/sched"
	"github.com/prometheus/client_golang/prometheus"
)

// Keys of log attributes, the same everywhere.
const (
	keyTransID    = "transid"
	keyActivation = "activation"
	keyContainer  = "container"
	keyAction     = "action"
	keyDevice     = "device"
	keyClass      = "class" // of OpenWhisk that logs the same
)

// Metrics has the invoker's metrics.
type Metrics struct {
	accepted       prometheus.Counter
	starts         *prometheus.CounterVec
	wait           prometheus.Histogram
	phases         map[string]prometheus.Observer
	acks           *prometheus.CounterVec
	records        *prometheus.CounterVec
	completions    *prometheus.CounterVec
	rescheduled    prometheus.Counter
	adopted        prometheus.Counter
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
	// named has the functions with their own series, held the values of each function in
	// gpuResident. Only the dispatcher uses them.
	named map[sched.FlowID]bool
	held  map[sched.FlowID]heldMemory
}

// LatencyBuckets returns the buckets of all times: from a millisecond to the longest that an
// action may be given.
func LatencyBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
}

// native makes a histogram also a native one, for scrapers that ask for native histograms. Its
// error is at most a tenth.
func native(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	o.Namespace, o.Buckets = "gpuwhisk", LatencyBuckets()
	o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = 1.1, 100
	o.NativeHistogramMinResetDuration = time.Hour
	return o
}

// NewMetrics registers the metrics: those of each function, of which there may be
// thousands, apart from the others, which may be read often.
func NewMetrics(reg, functions prometheus.Registerer) *Metrics {
	r := maker{reg}
	m := &Metrics{
		accepted:       r.counter("activations_accepted_total", "Activation messages taken from Kafka.").WithLabelValues(),
		starts:         r.counter("container_starts_total", "Runs by the state of the container they got (warmed, prewarmed, cold).", "state"),
		wait:           r.histogram("container_wait_seconds", "Time from acceptance to a container, CPU path."),
		records:        r.counter("records_total", "Activation records by outcome.", "outcome"),
		completions:    r.counter("activations_completed_total", "Completed activations by status code.", "status"),
		rescheduled:    r.counter("activations_rescheduled_total", "Activations that found their container gone and went to another.").WithLabelValues(),
		adopted:        r.counter("containers_adopted_total", "Containers of an earlier process that were taken over.").WithLabelValues(),
		discarded:      r.counter("containers_discarded_total", "Containers of an earlier process that could not be taken over and were removed.").WithLabelValues(),
		forwarded:      r.counter("activations_forwarded_total", "Activations that were passed on to invokers with a GPU.").WithLabelValues(),
		interrupted:    r.counter("activations_interrupted_total", "Activations that an earlier process had accepted and not committed: run again (rerun), answered with an error, found completed, or reported again as they had ended.", "how"),
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
	// Error counters exist before the first error, because to Prometheus the step from absent
	// to one is not an increase.
	m.acks = r.counter("acks_total", "Acks by kind and outcome.", "kind", "outcome")
	for _, o := range []string{"ok", "error"} {
		m.records.WithLabelValues(o)
		for kind := activation.AckKind(0); kind <= activation.Combined; kind++ {
			m.acks.WithLabelValues(kind.String(), o)
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

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// DeviceLabels name a device in metrics, as dcgm-exporter does: its number, its
// UUID (of a MIG slice the slice's own) and its model.
var DeviceLabels = []string{"gpu", "UUID", "modelName"}

// DeviceLabelValues are the values of DeviceLabels. A simulated device has no UUID,
// and its model ends with "(simulated)".
func DeviceLabelValues(d gpu.Device) []string {
	return []string{strconv.Itoa(d.Card), d.UUID, d.Model()}
}

// gpus registers the GPU scheduler's metrics.
func (m *Metrics) gpus(r maker) {
	m.gpuStarts = r.counter("gpu_starts_total", "GPU runs by start kind.", "kind")
	m.gpuUtilization = r.gauge("gpu_utilization", "Moving average of the share of time in which a device ran a kernel.", DeviceLabels...)
	m.gpuLost = r.gauge("gpu_lost", "1 for a device that cannot be used.", DeviceLabels...)
	m.gpuQueue = r.histogram("gpu_queue_seconds", "Time from acceptance to a GPU token.")
}

// functions registers the metrics of each GPU function, at most maxFunctions at a time.
func (m *Metrics) functions(r maker) {
	m.gpuSeconds = r.counter("gpu_seconds_total", "GPU service by namespace and action.", "namespace", "action")
	m.gpuMoved = r.counter("gpu_moved_bytes_total", "Device memory moved, by namespace, action and direction.", "namespace", "action", "direction")
	m.gpuResident = r.gauge("gpu_resident_bytes", "Memory on devices that containers hold, by namespace and action; source is measured or assumed.", "namespace", "action", "source")
	m.named, m.held = map[sched.FlowID]bool{}, map[sched.FlowID]heldMemory{}
	m.gpuWaits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "gpuwhisk", Name: "gpu_function_queue_seconds", Buckets: LatencyBuckets(),
		Help: "Time from acceptance to a GPU token, by namespace and action.",
	}, []string{"namespace", "action"})
	r.reg.MustRegister(m.gpuWaits)
}

// maxFunctions bounds the functions that have series of their own at a time. Callers
// choose the names of namespaces and actions, and each function has some thirty series.
const maxFunctions = 200

// otherFunctions stands in label values for all functions beyond maxFunctions.
var otherFunctions = sched.FlowID{Function: "other"}

// labels returns the label values of a function: its own names while at most
// maxFunctions have series, otherwise those of otherFunctions.
func (m *Metrics) labels(f sched.FlowID) sched.FlowID {
	if !m.named[f] {
		if len(m.named) >= maxFunctions {
			return otherFunctions
		}
		m.named[f] = true
	}
	return f
}

// queued counts how long a run waited for its token.
func (m *Metrics) queued(f sched.FlowID, d time.Duration) {
	m.gpuQueue.Observe(d.Seconds())
	f = m.labels(f)
	m.gpuWaits.WithLabelValues(f.Namespace, f.Function).Observe(d.Seconds())
}

// queueDepths returns how many activations wait, by flow as labels has them.
func (m *Metrics) queueDepths(core *scheduler.Scheduler) map[string]int {
	depths := map[string]int{}
	for _, id := range core.Flows() {
		if f, ok := core.Flow(id); ok {
			depths[strings.TrimPrefix(m.labels(id).String(), "/")] += f.Queued
		}
	}
	return depths
}

// served counts a run's use of a device for a flow.
func (m *Metrics) served(f sched.FlowID, service time.Duration) {
	f = m.labels(f)
	m.gpuSeconds.WithLabelValues(f.Namespace, f.Function).Add(max(0, service.Seconds()))
}

// moved counts memory that was moved.
func (m *Metrics) moved(f sched.FlowID, kind gpu.OrderKind, bytes int64) {
	if bytes > 0 {
		f = m.labels(f)
		m.gpuMoved.WithLabelValues(f.Namespace, f.Function, kind.String()).Add(float64(bytes))
	}
}

func (m *Metrics) lost(d gpu.Device, lost bool) {
	value := 0.0
	if lost {
		value = 1
	}
	m.gpuLost.WithLabelValues(DeviceLabelValues(d)...).Set(value)
}

// forget drops the series of a flow that no longer exists. Each series is named in
// full, so the cost does not depend on how many there are.
func (m *Metrics) forget(f sched.FlowID) {
	m.hold(f, heldMemory{})
	delete(m.held, f)
	if !m.named[f] {
		return
	}
	delete(m.named, f)
	m.gpuSeconds.DeleteLabelValues(f.Namespace, f.Function)
	for _, kind := range []gpu.OrderKind{gpu.Prefetch, gpu.Evict} {
		m.gpuMoved.DeleteLabelValues(f.Namespace, f.Function, kind.String())
	}
	for _, source := range []string{assumedSource, measuredSource} {
		m.gpuResident.DeleteLabelValues(f.Namespace, f.Function, source)
	}
	m.gpuWaits.DeleteLabelValues(f.Namespace, f.Function)
}

// The sources of the figures for a function's memory on devices.
const (
	assumedSource  = "assumed"
	measuredSource = "measured"
)

// assumedMemory has the unmeasured bytes of each function's containers on devices. A function
// without such bytes is absent.
type assumedMemory map[sched.FlowID]int64

// assume records the unmeasured bytes of a container on its device.
func (r assumedMemory) assume(ctr *actionContainer, bytes int64) {
	id := ctr.gpu.flow
	r[id] += bytes - ctr.gpu.assumed
	if ctr.gpu.assumed = bytes; r[id] == 0 {
		delete(r, id)
	}
}

// heldMemory is a function's contribution to gpuResident, with its label values.
type heldMemory struct {
	labels            sched.FlowID
	assumed, measured int64
}

// resident updates the gauges of the device memory of a flow's containers. all is their total.
// It is a no-op for an unknown flow.
func (m *Metrics) resident(id sched.FlowID, r assumedMemory, all int64, known bool) {
	if !known {
		return
	}
	assumed := min(r[id], all)
	m.hold(id, heldMemory{m.labels(id), assumed, all - assumed})
}

// hold replaces a function's contribution to gpuResident. The series otherFunctions is the sum
// of many functions.
func (m *Metrics) hold(id sched.FlowID, now heldMemory) {
	add := func(h heldMemory, sign float64) {
		m.gpuResident.WithLabelValues(h.labels.Namespace, h.labels.Function, assumedSource).Add(sign * float64(h.assumed))
		m.gpuResident.WithLabelValues(h.labels.Namespace, h.labels.Function, measuredSource).Add(sign * float64(h.measured))
	}
	if before, ok := m.held[id]; ok {
		add(before, -1)
	}
	if now != (heldMemory{}) {
		add(now, 1)
		m.held[id] = now
	}
}
