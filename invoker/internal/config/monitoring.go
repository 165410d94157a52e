package config

import (
	"cmp"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Logs configures the logs of actions and of the invoker.
type Logs struct {
	// OutOfBand means that a log driver ships the action logs: the invoker does not
	// collect them, and sets no log driver on containers.
	OutOfBand bool
	// Files is used in addition to the records.
	Files  LogFiles
	Level  string `key:"whisk.gpu.log.level" also:"logback.log.level" default:"INFO" enum:"TRACE,DEBUG,INFO,WARN,ERROR" doc:"least level of the invoker's own log lines"`
	Format string `key:"whisk.gpu.log.format" default:"openwhisk" enum:"openwhisk,text,json" doc:"form of the invoker's own log lines"`
}

// LogFiles configures the files of DockerToActivationFileLogStore.
type LogFiles struct {
	Enabled bool
	Dir     string `key:"whisk.gpu.log.directory" default:"/logs" doc:"directory of userlogs-TIME.log, which DockerToActivationFileLogStoreProvider writes"`
	Size    Size   `key:"whisk.gpu.log.file-size" default:"100 MiB" min:"1 KiB" doc:"size at which a new file begins, and how many bytes wait in memory for a slow disk; more are left out of the files"`
}

func (f LogFiles) check(demand demand) {
	demand(!f.Enabled || filepath.IsAbs(f.Dir), "whisk.gpu.log.directory %q is not an absolute path", f.Dir)
}

// Events configures the stream of user events.
type Events struct {
	Enabled bool `key:"whisk.user-events.enabled" default:"false" doc:"send an event for each activation"`
}

// Metrics configures the metrics and their receivers.
type Metrics struct {
	Kamon      bool `key:"whisk.metrics.kamon-enabled" env:"METRICS_KAMON" default:"false" doc:"with prometheus-enabled, serve /metrics; name metrics as OpenWhisk's invoker does too"`
	Prometheus bool `key:"whisk.metrics.prometheus-enabled" default:"false" doc:"with METRICS_KAMON, serve /metrics"`
	Endpoint   bool `key:"whisk.gpu.metrics.enabled" default:"true" doc:"serve /metrics, also without METRICS_KAMON and whisk.metrics.prometheus-enabled"`
	Tags       bool `key:"whisk.metrics.kamon-tags-enabled" env:"METRICS_KAMON_TAGS" default:"false" doc:"states and topics are labels, as OpenWhisk's Grafana boards expect"`
	StatsD     StatsD
}

// Names reports whether /metrics has OpenWhisk's (Kamon's) names in addition to ours.
func (m Metrics) Names() bool { return m.Kamon }

// Served reports whether /metrics is served.
func (m Metrics) Served() bool { return m.Endpoint || m.Kamon && m.Prometheus }

// Drain configures how the invoker stops.
type Drain struct {
	Deadline time.Duration `key:"whisk.gpu.drain-deadline" default:"30 seconds" doc:"how long running activations may take to finish after SIGTERM"`
	Flush    time.Duration `key:"whisk.gpu.flush-deadline" default:"10 seconds" doc:"how long acks and records may take to be sent after the drain deadline"`
	Handover bool          `key:"whisk.gpu.handover" default:"true" doc:"adopt warm containers, and leave them to the next process at SIGTERM; false removes all; needs whisk.gpu.journal"`
	Rerun    bool          `key:"whisk.invoker.rerun" default:"false" doc:"when the invoker starts, rerun activations that were interrupted by its end, up to three times, instead of answering them with an error; the annotation rerun overrides this"`
}

// StatsD is the agent that receives metrics by UDP, as from Kamon's reporter.
type StatsD struct {
	Hostname string        `key:"kamon.statsd.hostname" doc:"StatsD agent that gets the metrics of OpenWhisk's invoker by UDP, with METRICS_KAMON; empty: none"`
	Port     int           `key:"kamon.statsd.port" default:"8125" range:"1..65535" doc:"port of the StatsD agent"`
	Interval time.Duration `key:"kamon.metric.tick-interval" also:"kamon.statsd.flush-interval" default:"1 second" doc:"how often metrics are sent to StatsD, from 100 ms to 1 h"`
	Packet   Size          `key:"kamon.statsd.max-packet-size" default:"1 KiB" min:"64" doc:"most bytes of a packet, at most 65507"`
	Service  string        `key:"kamon.environment.service" default:"openwhisk-statsd" doc:"first part of the names in StatsD: service.invokerN.name, then each label and its value"`
}

// Address returns host:port of the agent.
func (s StatsD) Address() string { return net.JoinHostPort(s.Hostname, strconv.Itoa(s.Port)) }

// Sent reports whether metrics go to StatsD.
func (m Metrics) Sent() bool { return m.Kamon && m.StatsD.Hostname != "" }

// Bounds of StatsD: shorter intervals show nothing new, and a datagram cannot hold more
// bytes.
const (
	leastTick  = 100 * time.Millisecond
	mostTick   = time.Hour
	mostPacket = 65507
)

// check demands settings that can be sent.
func (s StatsD) check(demand demand) {
	demand(s.Interval >= leastTick && s.Interval <= mostTick, "kamon.metric.tick-interval %s is not from 100 ms to 1 h", formatDuration(s.Interval))
	demand(s.Packet <= mostPacket, "kamon.statsd.max-packet-size %v is above the %d bytes that a datagram holds", s.Packet, mostPacket)
	demand(s.Service != "" && !strings.ContainsAny(s.Service, ":|@ \t\r\n"),
		"kamon.environment.service %q does not begin a name in StatsD: it must not be empty nor have blanks, ':', '|' or '@'", s.Service)
}

// Traces configures the export of OpenTelemetry spans. The variables are
// OpenTelemetry's. Its library itself reads the others (headers, certificates, sampler,
// batch limits, resource attributes).
type Traces struct {
	Disabled bool   `key:"otel.sdk.disabled,plain" env:"OTEL_SDK_DISABLED" default:"false" doc:"send no traces, whatever the other keys say"`
	Exporter string `key:"otel.traces.exporter,plain" env:"OTEL_TRACES_EXPORTER" enum:",otlp,none" doc:"otlp sends traces, none does not; empty: traces are sent if an endpoint is set"`
	// Endpoint is the base address for all signals. TracesEndpoint is the address for
	// traces and overrides it. The same holds for Protocol and TracesProtocol.
	Endpoint       string `key:"otel.exporter.otlp.endpoint,plain" env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"where OTLP goes, such as http://collector:4318; TRACES overrides it and is used unchanged"`
	TracesEndpoint string `key:"otel.exporter.otlp.traces.endpoint,plain" env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"`
	Protocol       string `key:"otel.exporter.otlp.protocol,plain" env:"OTEL_EXPORTER_OTLP_PROTOCOL" default:"http/protobuf" enum:"http/protobuf,grpc" doc:"protocol of OTLP; TRACES overrides it"`
	TracesProtocol string `key:"otel.exporter.otlp.traces.protocol,plain" env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" enum:",http/protobuf,grpc"`
}

// On reports whether traces are sent.
func (t Traces) On() bool {
	return !t.Disabled && (t.Exporter == "otlp" || t.Exporter == "" && t.Endpoint+t.TracesEndpoint != "")
}

// Target returns the address and the protocol of traces. An empty address means the
// library's default on this machine.
func (t Traces) Target() (endpoint, protocol string) {
	endpoint, protocol = cmp.Or(t.TracesEndpoint, t.Endpoint), cmp.Or(t.TracesProtocol, t.Protocol)
	if t.TracesEndpoint == "" && endpoint != "" && protocol == "http/protobuf" {
		endpoint = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	return endpoint, protocol
}

// check refuses an address that the library would silently replace by its default.
func (t Traces) check(demand demand) {
	name, address := "OTEL_EXPORTER_OTLP_ENDPOINT", t.Endpoint
	if t.TracesEndpoint != "" {
		name, address = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", t.TracesEndpoint
	}
	u, err := url.Parse(address)
	demand(address == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "",
		"%s: not an address such as http://collector:4318 (http without TLS, https with it)", name)
}
