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

// kamon shows metrics under the names of OpenWhisk's invoker.
func (a *assembly) kamon(of prometheus.Gatherer) kamon.Gatherer {
	return kamon.Gatherer{Of: of, Topic: a.instance.Topic(), Tags: a.c.Metrics.Tags}
}

// openStatsD starts sending metrics where the configuration names an agent.
func (a *assembly) openStatsD(context.Context) (hooks, error) {
	if !a.c.Metrics.Sent() {
		return hooks{}, nil
	}
	live := prometheus.NewRegistry()
	live.MustRegister(gauges{a})
	to := a.c.Metrics.StatsD
	statsd := kamon.NewStatsD(kamon.StatsDConfig{
		Address: to.Address(), Service: to.Service, Host: a.instance.Topic(), Interval: to.Interval, Packet: int(to.Packet),
	}, a.kamon(prometheus.Gatherers{a.metrics, a.functions, live}))
	a.Log.Info("metrics are sent to StatsD", "to", to.Address(), "every", to.Interval)
	return hooks{close: func(ctx context.Context) error { statsd.Close(ctx); return nil }}, nil
}

// lastTraces bounds the wait for the receiver of the last traces, which are worth
// less than acks and records.
const lastTraces = 3 * time.Second

// openTracer starts sending traces where the configuration names a receiver.
func (a *assembly) openTracer(ctx context.Context) (hooks, error) {
	if !a.c.Traces.On() {
		return hooks{}, nil
	}
	endpoint, protocol := a.c.Traces.Target()
	t, err := trace.New(ctx, trace.Config{
		Protocol: protocol, Endpoint: endpoint, Instance: a.instance.Topic(), Version: a.Version,
	}, a.Log)
	if err != nil {
		return hooks{}, err
	}
	a.tracer = t
	count := func(name, help string, labels prometheus.Labels, of func(trace.Stats) int64) {
		a.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
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
	a.Log.Info("traces are sent", "to", endpoint, "protocol", protocol)
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
func (a *assembly) openUserLogs(context.Context) (hooks, error) {
	f := a.c.Logs.Files
	if !f.Enabled {
		return hooks{}, nil
	}
	files, err := userlogs.New(userlogs.Config{Dir: f.Dir, FileSize: int64(f.Size), Buffer: int64(f.Size), Log: a.Log})
	if err != nil {
		return hooks{}, fmt.Errorf("%w (whisk.gpu.log.directory)", err)
	}
	a.userLogs = files
	return hooks{close: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lastLines)
		defer cancel()
		if err := files.Close(ctx); err != nil {
			a.Log.Warn("log lines are not in the log files", "error", err)
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
func (a *assembly) observeDelay() func(time.Duration) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "gpuwhisk", Name: "kafka_delay_seconds", Help: "Time that an activation message spent in Kafka.",
		Buckets: invoker.LatencyBuckets(),
	})
	a.metrics.MustRegister(h)
	return func(d time.Duration) { h.Observe(d.Seconds()) }
}
