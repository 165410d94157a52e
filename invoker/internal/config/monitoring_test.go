package config

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestStatsD: metrics go to StatsD if Kamon is enabled and the agent has a host name.
// The keys are those of the role and of Kamon, and invalid values are refused.
func TestStatsD(t *testing.T) {
	c := loaded(t, "METRICS_KAMON=true", "CONFIG_kamon_statsd_hostname=statsd.example", "CONFIG_kamon_statsd_port=9125")
	want := StatsD{Hostname: "statsd.example", Port: 9125, Interval: time.Second, Packet: 1024, Service: "openwhisk-statsd"}
	check.Equal(t, c.Metrics.StatsD, want)
	check.That(t, c.Metrics.Sent())
	check.Equal(t, want.Address(), "statsd.example:9125")
	for _, off := range [][]string{{"METRICS_KAMON=true"}, {"CONFIG_kamon_statsd_hostname=statsd.example"}} {
		if c := loaded(t, off...); c.Metrics.Sent() {
			t.Errorf("sent with %v alone", off)
		}
	}
	older := loaded(t, "CONFIG_kamon_statsd_flushInterval=10 seconds")
	both := loaded(t, "CONFIG_kamon_statsd_flushInterval=10 seconds", "CONFIG_kamon_metric_tickInterval=3 seconds")
	check.Equal(t, older.Metrics.StatsD.Interval, 10*time.Second)
	check.Equal(t, both.Metrics.StatsD.Interval, 3*time.Second)
	for setting, want := range map[string]string{
		"CONFIG_kamon_metric_tickInterval=0":           "kamon.metric.tick-interval",
		"CONFIG_kamon_metric_tickInterval=Inf":         "kamon.metric.tick-interval",
		"CONFIG_kamon_statsd_maxPacketSize=1 m":        "kamon.statsd.max-packet-size",
		"CONFIG_kamon_statsd_maxPacketSize=1":          "kamon.statsd.max-packet-size",
		"CONFIG_kamon_statsd_port=65536":               "kamon.statsd.port",
		"CONFIG_kamon_environment_service=open whisk:": "kamon.environment.service",
	} {
		refused(t, want, "METRICS_KAMON=true", "CONFIG_kamon_statsd_hostname=statsd.example", setting)
	}
}

// TestTarget: the address for traces is used unchanged. With HTTP, a path is added to
// the address for all signals.
func TestTarget(t *testing.T) {
	for want, env := range map[string][]string{
		" by http/protobuf":                              {"OTEL_TRACES_EXPORTER=otlp"},
		"http://c:4318/v1/traces by http/protobuf":       {"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"},
		"http://c:4318/below/v1/traces by http/protobuf": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/below/"},
		"http://c:4317 by grpc":                          {"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc"},
		"http://c:4318/whole by http/protobuf":           {"OTEL_EXPORTER_OTLP_ENDPOINT=http://d", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/whole"},
	} {
		endpoint, protocol := loaded(t, env...).Traces.Target()
		check.Equal(t, endpoint+" by "+protocol, want, "%q", env)
	}
}

// TestTracesNeedAnAddress: an address without a host is refused, because the library
// would take its path for the host.
func TestTracesNeedAnAddress(t *testing.T) {
	for _, address := range []string{"http://", "http:///", "https://", "ftp://c", "c:4318"} {
		refused(t, "OTEL_EXPORTER_OTLP_ENDPOINT: not an address", "OTEL_EXPORTER_OTLP_ENDPOINT="+address)
		refused(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: not an address", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+address)
	}
}
