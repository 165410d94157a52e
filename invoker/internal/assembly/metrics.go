package assembly

import (
	"context"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges exports the numbers of /status at /metrics.
type gauges struct{ *overview }

// Describe sends nothing, which makes the collector unchecked: its metrics depend on the
// present devices and flows.
func (g gauges) Describe(chan<- *prometheus.Desc) {}

// Collect takes one snapshot.
func (g gauges) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	s, err := g.status(ctx)
	if err != nil || s.Work == nil {
		return
	}
	healthy := 0.0
	if s.Healthy {
		healthy = 1
	}
	m := sink(out)
	m.gauge("healthy", "1 if /status lists no reason against the invoker's health, otherwise 0.", healthy)
	m.gauge("build_info", "The version of the running program; always 1.", 1, label{"version", g.Version}, label{"goversion", runtime.Version()})
	for _, part := range g.parts.hooks {
		if part.gauges != nil {
			part.gauges(&s, m)
		}
	}
}

// sink receives metrics.
type sink chan<- prometheus.Metric

type label struct{ name, value string }

func (m sink) gauge(name, help string, v float64, labels ...label) {
	m.send(prometheus.GaugeValue, name, help, v, labels)
}

func (m sink) counter(name, help string, v float64, labels ...label) {
	m.send(prometheus.CounterValue, name, help, v, labels)
}

func (m sink) send(kind prometheus.ValueType, name, help string, v float64, labels []label) {
	var names, values []string
	for _, l := range labels {
		names, values = append(names, l.name), append(values, l.value)
	}
	m <- prometheus.MustNewConstMetric(prometheus.NewDesc("gpuwhisk_"+name, help, names, nil), kind, v, values...)
}

// workGauges exports the dispatcher's numbers.
func workGauges(s *status, m sink) {
	m.gauge("activations_in_flight", "Activations that are accepted and not completed.", float64(s.Work.InFlight))
	for flow, n := range s.Work.Queued {
		m.gauge("gpu_queue_depth", "Activations that wait in a flow.", float64(n), label{"flow", flow})
	}
	if b := s.Work.Backlog; b != nil {
		m.gauge("gpu_backlog", "GPU activations that are accepted and not completed.", float64(b.Activations))
		m.gauge("gpu_backlog_bytes", "Bytes of the messages of GPU activations that are accepted and not completed; less is pulled beyond whisk.gpu.backlog-size.", float64(b.Bytes))
	}
	poolGauges(s, m)
}

func poolGauges(s *status, m sink) {
	const mib = 1 << 20
	p := s.Work.Pool
	memory := func(state string, mb int) {
		m.gauge("pool_memory_bytes", "Memory of CPU containers by state; limit is all there is, reserved is the memory of GPU containers.", float64(mb)*mib, label{"state", state})
	}
	for _, v := range []struct {
		state string
		n, mb int
	}{
		{"active", p.Active, p.ActiveMB}, {"idle", p.Idle, p.IdleMB},
		{"prewarm", p.Prewarm, p.PrewarmMB}, {"waiting", p.Waiting, p.WaitingMB},
	} {
		m.gauge("pool_containers", "CPU containers by state.", float64(v.n), label{"state", v.state})
		memory(v.state, v.mb)
	}
	memory("limit", p.MemoryMB)
	memory("reserved", p.ReservedMB)
	for _, c := range p.Prewarms {
		kind, size := label{"kind", c.Kind}, label{"memory", strconv.Itoa(c.MemoryMB) + " MB"}
		m.counter("prewarm_missed_total", "Cold starts that a prewarmed container could have served.", float64(c.Missed), kind, size)
		m.counter("prewarm_expired_total", "Prewarmed containers that were removed unused.", float64(c.Expired), kind, size)
	}
}
