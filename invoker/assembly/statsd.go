package assembly

import (
	"context"

	"github.com/gpuwhisk/gpuwhisk/invoker/kamon"
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
