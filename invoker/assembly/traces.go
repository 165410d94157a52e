package assembly

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/trace"
	"github.com/prometheus/client_golang/prometheus"
)

// lastTraces bounds the wait for the receiver of the last traces: nobody waits
// for them as for acks and records.
const lastTraces = 3 * time.Second

// openTracer starts sending traces where the configuration asks for them.
func (a *assembly) openTracer(ctx context.Context) error {
	if !a.c.Traces.On() {
		return nil
	}
	endpoint, protocol, whole := a.c.Traces.Target()
	t, err := trace.New(ctx, trace.Config{
		Protocol: protocol, Endpoint: endpoint, Whole: whole, Instance: a.instance.Topic(), Version: a.Version,
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
