package assembly

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/kamon"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/trace"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/userlogs"
	"github.com/prometheus/client_golang/prometheus"
)

// kamon shows metrics under the names of OpenWhisk's invoker.
func (a *assembly) kamon(of prometheus.Gatherer) kamon.Gatherer {
	return kamon.Gatherer{Of: of, Topic: a.instance.Topic(), Tags: a.c.Metrics.Tags}
}

// openStatsD starts sending metrics where the configuration asks for them.
func (a *assembly) openStatsD(context.Context) error {
	if !a.c.Metrics.Sent() {
		return nil
	}
	live := prometheus.NewRegistry()
	live.MustRegister(gauges{a})
	to := a.c.Metrics.StatsD
	a.statsd = kamon.NewStatsD(kamon.StatsDConfig{
		Address: to.Address(), Service: to.Service, Host: a.instance.Topic(), Interval: to.Interval, Packet: int(to.Packet),
	}, a.kamon(prometheus.Gatherers{a.metrics, a.functions, live}))
	a.Log.Info("metrics are sent to StatsD", "to", to.Address(), "every", to.Interval)
	return nil
}

func (a *assembly) closeStatsD(ctx context.Context) error {
	if a.statsd != nil {
		a.statsd.Close(ctx)
	}
	return nil
}

// lastTraces bounds the wait for the receiver of the last traces: nothing waits
// for them as for acks and records.
const lastTraces = 3 * time.Second

// openTracer starts sending traces where the configuration asks for them.
func (a *assembly) openTracer(ctx context.Context) error {
	if !a.c.Traces.On() {
		return nil
	}
	endpoint, protocol, tracesOnly := a.c.Traces.Target()
	t, err := trace.New(ctx, trace.Config{
		Protocol: protocol, Endpoint: endpoint, Whole: tracesOnly, Instance: a.instance.Topic(), Version: a.Version,
	}, a.Log)
	if err != nil {
		return err
	}
	a.tracer = t
	count := func(name, help string, labels prometheus.Labels, of func(trace.Stats) int64) {
		a.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "gpuwhisk", Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return float64(of(t.Stats())) }))
	}
	const spans, help = "trace_spans_total", "Spans by what became of them: the receiver took them, or not."
	count(spans, help, prometheus.Labels{"outcome": "ok"}, func(s trace.Stats) int64 { return s.Sent })
	count(spans, help, prometheus.Labels{"outcome": "error"}, func(s trace.Stats) int64 { return s.Failed })
	count("traces_dropped_total", "Activations without a trace, because the queue of those to be sent was full.", nil,
		func(s trace.Stats) int64 { return s.Dropped })
	if endpoint == "" {
		endpoint = "this machine"
	}
	a.Log.Info("traces are sent", "to", endpoint, "protocol", protocol)
	return nil
}

func (a *assembly) closeTracer(ctx context.Context) error {
	if a.tracer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastTraces)
	defer cancel()
	return a.tracer.Close(ctx)
}

// logFilesStatus is what /status shows of the files of actions' logs.
type logFilesStatus struct {
	Trouble string `json:"trouble,omitempty"` // why nothing is written
	Dropped int64  `json:"dropped"`           // activations whose lines are in no file
}

// openUserLogs opens the files of actions' logs where the configuration asks for
// them.
func (a *assembly) openUserLogs(context.Context) (err error) {
	f := a.c.Logs.Files
	if !f.Enabled {
		return nil
	}
	a.userLogs, err = userlogs.New(userlogs.Config{Dir: f.Dir, FileSize: int64(f.Size), Buffer: int64(f.Size), Log: a.Log})
	if err != nil {
		return fmt.Errorf("%w (whisk.gpu.log.directory)", err)
	}
	return nil
}

// lastLines is how long the end waits for a disk that takes no log lines. They
// are in the records; what closes after the files is worth more.
const lastLines = 2 * time.Second

func (a *assembly) closeUserLogs(ctx context.Context) error {
	if a.userLogs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastLines)
	defer cancel()
	if err := a.userLogs.Close(ctx); err != nil {
		a.Log.Warn("log lines are not in the log files", "error", err)
	}
	return nil
}

func (a *assembly) userLogsStatus(s *status) {
	if a.userLogs == nil {
		return
	}
	s.LogFiles = &logFilesStatus{Trouble: a.userLogs.Trouble(), Dropped: a.userLogs.Dropped()}
	s.because("writing log files", s.LogFiles.Trouble)
}

func (a *assembly) userLogsGauges(s *status, m sink) {
	if s.LogFiles != nil {
		m.counter("log_files_dropped_total", "Activations whose log lines are in no file, because the disk did not keep up.", float64(s.LogFiles.Dropped))
	}
}

// named adds the names of OpenWhisk's invoker where they are asked for.
func (a *assembly) named(metrics prometheus.Gatherer) prometheus.Gatherer {
	if !a.c.Metrics.Names() {
		return metrics
	}
	return a.kamon(metrics)
}

// observeDelay is the histogram of the time that messages spend in Kafka.
func (a *assembly) observeDelay() func(time.Duration) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "gpuwhisk", Name: "kafka_delay_seconds", Help: "Time that an activation message spent in Kafka.",
		Buckets: invoker.Latency(),
	})
	a.metrics.MustRegister(h)
	return func(d time.Duration) { h.Observe(d.Seconds()) }
}
