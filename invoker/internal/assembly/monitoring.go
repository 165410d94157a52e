package assembly

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/kamon"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/trace"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/userlogs"
	"github.com/prometheus/client_golang/prometheus"
)

// telemetry sends traces and writes the files of actions' logs.
type telemetry struct {
	*base
	tracer   invoker.Tracer   // nil: traces are off
	userLogs invoker.UserLogs // nil: logs go into records alone
}

// kamon shows metrics under the names of OpenWhisk's invoker.
func (b *base) kamon(of prometheus.Gatherer) kamon.Gatherer {
	return kamon.Gatherer{Of: of, Topic: b.instance.Topic(), Tags: b.c.Metrics.Tags}
}

// openStatsD starts sending metrics where the configuration names an agent.
func (o *overview) openStatsD(context.Context) (hooks, error) {
	if !o.c.Metrics.Sent() {
		return hooks{}, nil
	}
	live := prometheus.NewRegistry()
	live.MustRegister(gauges{o})
	to := o.c.Metrics.StatsD
	statsd := kamon.NewStatsD(kamon.StatsDConfig{
		Address: to.Address(), Service: to.Service, Host: o.instance.Topic(), Interval: to.Interval, Packet: int(to.Packet),
	}, o.kamon(prometheus.Gatherers{o.metrics, o.functions, live}))
	o.Log.Info("metrics are sent to StatsD", "to", to.Address(), "every", to.Interval)
	return hooks{close: func(ctx context.Context) error { statsd.Close(ctx); return nil }}, nil
}

// lastTraces bounds the wait for the receiver of the last traces, which are worth
// less than acks and records.
const lastTraces = 3 * time.Second

// openTracer starts sending traces where the configuration names a receiver.
func (o *telemetry) openTracer(ctx context.Context) (hooks, error) {
	if !o.c.Traces.On() {
		return hooks{}, nil
	}
	endpoint, protocol := o.c.Traces.Target()
	t, err := trace.New(ctx, trace.Config{
		Protocol: protocol, Endpoint: endpoint, Instance: o.instance.Topic(), Version: o.Version,
	}, o.Log)
	if err != nil {
		return hooks{}, err
	}
	o.tracer = t
	count := func(name, help string, labels prometheus.Labels, of func(trace.Stats) int64) {
		o.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "gpuwhisk", Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return float64(of(t.Stats())) }))
	}
	const spans, help = "trace_spans_total", "Spans by outcome: the receiver took them, or not."
	count(spans, help, prometheus.Labels{"outcome": "ok"}, func(s trace.Stats) int64 { return s.Sent })
	count(spans, help, prometheus.Labels{"outcome": "error"}, func(s trace.Stats) int64 { return s.Failed })
	count("traces_dropped_total", "Activations without a trace, because the queue to the receiver was full.", nil,
		func(s trace.Stats) int64 { return s.Dropped })
	if endpoint == "" {
		endpoint = "this machine"
	}
	o.Log.Info("traces are sent", "to", endpoint, "protocol", protocol)
	return hooks{close: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lastTraces)
		defer cancel()
		return t.Close(ctx)
	}}, nil
}

// logFilesStatus is the part of /status about the files of actions' logs.
type logFilesStatus struct {
	Trouble string `json:"trouble,omitempty"` // why nothing is written
	Dropped int64  `json:"dropped"`           // activations whose lines are in no file
}

// lastLines bounds the wait for a disk that takes no log lines: they are in the
// records, too, and the parts that close later are worth more.
const lastLines = 2 * time.Second

// openUserLogs opens the files of actions' logs where the configuration has them.
func (o *telemetry) openUserLogs(context.Context) (hooks, error) {
	f := o.c.Logs.Files
	if !f.Enabled {
		return hooks{}, nil
	}
	files, err := userlogs.New(userlogs.Config{Dir: f.Dir, FileSize: int64(f.Size), Buffer: int64(f.Size), Log: o.Log})
	if err != nil {
		return hooks{}, fmt.Errorf("%w (whisk.gpu.log.directory)", err)
	}
	o.userLogs = files
	return hooks{close: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lastLines)
		defer cancel()
		if err := files.Close(ctx); err != nil {
			o.Log.Warn("log lines are not in the log files", "error", err)
		}
		return nil
	}, status: func(s *status) {
		s.LogFiles = &logFilesStatus{Trouble: files.Trouble(), Dropped: files.Dropped()}
		s.because("writing log files", s.LogFiles.Trouble)
	}, gauges: func(s *status, m sink) {
		m.counter("log_files_dropped_total", "Activations whose log lines are in no file, because the disk did not keep up.", float64(s.LogFiles.Dropped))
	}}, nil
}

// observeDelay is the histogram of the time that messages spend in Kafka.
func (b *base) observeDelay() func(time.Duration) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "gpuwhisk", Name: "kafka_delay_seconds", Help: "Time that an activation message spent in Kafka.",
		Buckets: invoker.LatencyBuckets(),
	})
	b.metrics.MustRegister(h)
	return func(d time.Duration) { h.Observe(d.Seconds()) }
}
