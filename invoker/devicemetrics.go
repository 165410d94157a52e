package invoker

import (
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
	"github.com/prometheus/client_golang/prometheus"
)

// DeviceLabels name a device in metrics, as dcgm-exporter does: its number, its
// UUID (of a MIG slice the slice's own) and its model.
var DeviceLabels = []string{"gpu", "UUID", "modelName"}

// DeviceValues are the values of DeviceLabels. A simulated device has no UUID,
// and its model says what it is.
func DeviceValues(d gpu.Device) []string {
	return []string{strconv.Itoa(d.Card), d.UUID, d.Model()}
}

// gpus makes what the GPU lane counts.
func (m *Metrics) gpus(r maker) {
	m.gpuStarts = r.counter("gpu_starts_total", "GPU runs by start kind.", "kind")
	m.gpuUtilization = r.gauge("gpu_utilization", "Moving average of the share of time in which a device ran a kernel.", DeviceLabels...)
	m.gpuLost = r.gauge("gpu_lost", "1 for a device that cannot be used.", DeviceLabels...)
	m.gpuQueue = r.histogram("gpu_queue_seconds", "Time from acceptance to a GPU token.")
}

// functions makes what is counted of each GPU function.
func (m *Metrics) functions(r maker) {
	m.gpuSeconds = r.counter("gpu_seconds_total", "GPU service by namespace and action.", "namespace", "action")
	m.gpuMoved = r.counter("gpu_moved_bytes_total", "Device memory moved, by namespace, action and direction.", "namespace", "action", "direction")
	m.gpuResident = r.gauge("gpu_resident_bytes", "Memory on devices that containers hold, by namespace and action; source says whether it was measured or assumed.", "namespace", "action", "source")
	m.waiters = map[sched.FlowID]bool{}
	m.gpuWaits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "gpuwhisk", Name: "gpu_function_queue_seconds", Buckets: Latency(),
		Help: "The same by namespace and action, of at most 200 functions at a time; action other is of all further ones.",
	}, []string{"namespace", "action"})
	r.reg.MustRegister(m.gpuWaits)
}

// maxWaiters bounds the functions that have a histogram of their own: each has
// some twenty series.
const maxWaiters = 200

// queued counts how long a run waited for its token.
func (m *Metrics) queued(f sched.FlowID, d time.Duration) {
	m.gpuQueue.Observe(d.Seconds())
	if !m.waiters[f] {
		if len(m.waiters) >= maxWaiters {
			f = sched.FlowID{Function: "other"}
		} else {
			m.waiters[f] = true
		}
	}
	m.gpuWaits.WithLabelValues(f.Namespace, f.Function).Observe(d.Seconds())
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

func (m *Metrics) lost(d gpu.Device, lost bool) {
	value := 0.0
	if lost {
		value = 1
	}
	m.gpuLost.WithLabelValues(DeviceValues(d)...).Set(value)
}

// forget drops the series of a flow that is no more: there may be very many
// flows in an invoker's life.
func (m *Metrics) forget(f sched.FlowID) {
	of := prometheus.Labels{"namespace": f.Namespace, "action": f.Function}
	m.gpuSeconds.DeletePartialMatch(of)
	m.gpuMoved.DeletePartialMatch(of)
	m.gpuResident.DeletePartialMatch(of)
	m.gpuWaits.DeletePartialMatch(of)
	delete(m.waiters, f)
}

// residents is how much of what containers hold on devices nobody saw, where
// there is any.
type residents map[sched.FlowID]int64

// assume notes how much of what a box holds on its device nobody saw.
func (r residents) assume(b *box, bytes int64) {
	id := b.gpu.flow
	r[id] += bytes - b.gpu.assumed
	if b.gpu.assumed = bytes; r[id] == 0 {
		delete(r, id)
	}
}

// resident brings the gauges of what a flow's containers hold on devices up to
// date. all is what they hold together; a flow that is not known has none.
func (m *Metrics) resident(id sched.FlowID, r residents, all int64, known bool) {
	if !known {
		return
	}
	assumed := min(r[id], all)
	for source, n := range map[string]int64{"assumed": assumed, "measured": all - assumed} {
		m.gpuResident.WithLabelValues(id.Namespace, id.Function, source).Set(float64(n))
	}
}
