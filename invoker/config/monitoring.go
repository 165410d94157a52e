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

// Logs is what happens to the logs of actions and of the invoker.
type Logs struct {
	// OutOfBand means that action logs travel by a log driver: they are not
	// collected, and no log driver is set on containers.
	OutOfBand bool
	// Files are written beside the records.
	Files  LogFiles
	Level  string `key:"whisk.gpu.log.level" also:"logback.log.level" default:"INFO" enum:"TRACE,DEBUG,INFO,WARN,ERROR" doc:"least level of the invoker's own log lines"`
	Format string `key:"whisk.gpu.log.format" default:"openwhisk" enum:"openwhisk,text,json" doc:"form of the invoker's own log lines"`
}

// LogFiles is where DockerToActivationFileLogStore writes.
type LogFiles struct {
	Enabled bool
	Dir     string `key:"whisk.gpu.log.directory" default:"/logs" doc:"directory of userlogs-TIME.log, which DockerToActivationFileLogStoreProvider writes"`
	Size    Size   `key:"whisk.gpu.log.file-size" default:"100 MiB" min:"1 KiB" doc:"size at which the next of those files begins, and how much waits in memory for a slow disk; more is left out of the files"`
}

func (f LogFiles) check(demand demand) {
	demand(!f.Enabled || filepath.IsAbs(f.Dir), "whisk.gpu.log.directory %q is not an absolute path", f.Dir)
}

// Events is the stream of user events.
type Events struct {
	Enabled bool `key:"whisk.user-events.enabled" default:"false" doc:"send an event for each activation"`
}

// Metrics is what is measured and where it goes.
type Metrics struct {
	Kamon      bool `key:"whisk.metrics.kamon-enabled" env:"METRICS_KAMON" default:"false" doc:"with prometheus-enabled, serve /metrics; name metrics as OpenWhisk's invoker does too"`
	Prometheus bool `key:"whisk.metrics.prometheus-enabled" default:"false" doc:"with METRICS_KAMON, serve /metrics"`
	Endpoint   bool `key:"whisk.gpu.metrics.enabled" default:"true" doc:"serve /metrics whatever the two above are"`
	Tags       bool `key:"whisk.metrics.kamon-tags-enabled" env:"METRICS_KAMON_TAGS" default:"false" doc:"states and topics are labels, as OpenWhisk's Grafana boards expect"`
	StatsD     StatsD
}

// Names reports whether /metrics shows Kamon's names beside ours.
func (m Metrics) Names() bool { return m.Kamon }

// Served reports whether /metrics answers.
func (m Metrics) Served() bool { return m.Endpoint || m.Kamon && m.Prometheus }

// Drain is how the invoker stops.
type Drain struct {
	Deadline time.Duration `key:"whisk.gpu.drain-deadline" default:"30 seconds" doc:"how long running activations may take to finish after SIGTERM"`
	Flush    time.Duration `key:"whisk.gpu.flush-deadline" default:"10 seconds" doc:"how long acks and records may take to leave after the drain deadline"`
	Handover bool          `key:"whisk.gpu.handover" default:"true" doc:"adopt warm containers, and leave them to the next process at SIGTERM; false removes all; needs whisk.gpu.journal"`
	Rerun    bool          `key:"whisk.invoker.rerun" default:"false" doc:"run an activation again that was running when the invoker ended, up to three times, instead of answering it with an error; an annotation rerun goes first"`
}

// StatsD is the agent that gets metrics by UDP, as Kamon's reporter sends them.
type StatsD struct {
	Hostname string        `key:"kamon.statsd.hostname" doc:"StatsD agent that gets the metrics of OpenWhisk's invoker by UDP, with METRICS_KAMON; empty: none"`
	Port     int           `key:"kamon.statsd.port" default:"8125" range:"1..65535" doc:"port of the StatsD agent"`
	Interval time.Duration `key:"kamon.metric.tick-interval" also:"kamon.statsd.flush-interval" default:"1 second" doc:"how often metrics are sent to StatsD, from 100 ms to 1 h"`
	Packet   Size          `key:"kamon.statsd.max-packet-size" default:"1 KiB" min:"64" doc:"most bytes of a packet, at most 65507"`
	Service  string        `key:"kamon.environment.service" default:"openwhisk-statsd" doc:"first part of the names in StatsD: service.invokerN.name, then each label and its value"`
}

// Address is host:port of the agent.
func (s StatsD) Address() string { return net.JoinHostPort(s.Hostname, strconv.Itoa(s.Port)) }

// Sent reports whether metrics go to StatsD.
func (m Metrics) Sent() bool { return m.Kamon && m.StatsD.Hostname != "" }

// Bounds of StatsD: a shorter interval costs and shows nothing new, and a datagram
// holds no more.
const (
	leastTick  = 100 * time.Millisecond
	mostTick   = time.Hour
	mostPacket = 65507
)

// check refuses what cannot be sent.
func (s StatsD) check(demand demand) {
	demand(s.Interval >= leastTick && s.Interval <= mostTick, "kamon.metric.tick-interval %s is not from 100 ms to 1 h", formatDuration(s.Interval))
	demand(s.Packet <= mostPacket, "kamon.statsd.max-packet-size %v is above the %d bytes that a datagram holds", s.Packet, mostPacket)
	demand(s.Service != "" && !strings.ContainsAny(s.Service, ":|@ \t\r\n"),
		"kamon.environment.service %q does not begin a name in StatsD: it must not be empty nor have blanks, ':', '|' or '@'", s.Service)
}

// Traces is where OpenTelemetry's spans go. The variables are those that
// OpenTelemetry names; what is not here (headers, certificates, sampler, limits
// of batches, attributes of the resource) its library reads by itself.
type Traces struct {
	Disabled bool   `key:"otel.sdk.disabled,plain" env:"OTEL_SDK_DISABLED" default:"false" doc:"send no traces, whatever the other keys are"`
	Exporter string `key:"otel.traces.exporter,plain" env:"OTEL_TRACES_EXPORTER" enum:",otlp,none" doc:"otlp sends traces, none does not; empty: where an endpoint is named"`
	// Endpoint is the base of all signals' addresses, TracesEndpoint that of
	// traces alone, which counts first. Protocol likewise.
	Endpoint       string `key:"otel.exporter.otlp.endpoint,plain" env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"where OTLP goes, such as http://collector:4318; TRACES goes first and is taken as it is"`
	TracesEndpoint string `key:"otel.exporter.otlp.traces.endpoint,plain" env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"`
	Protocol       string `key:"otel.exporter.otlp.protocol,plain" env:"OTEL_EXPORTER_OTLP_PROTOCOL" default:"http/protobuf" enum:"http/protobuf,grpc" doc:"protocol of OTLP; TRACES goes first"`
	TracesProtocol string `key:"otel.exporter.otlp.traces.protocol,plain" env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" enum:",http/protobuf,grpc"`
}

// On reports whether traces are sent.
func (t Traces) On() bool {
	return !t.Disabled && (t.Exporter == "otlp" || t.Exporter == "" && t.Endpoint+t.TracesEndpoint != "")
}

// Target is where traces go, and how. An empty address is the library's default on
// this machine.
func (t Traces) Target() (endpoint, protocol string) {
	endpoint, protocol = cmp.Or(t.TracesEndpoint, t.Endpoint), cmp.Or(t.TracesProtocol, t.Protocol)
	if t.TracesEndpoint == "" && endpoint != "" && protocol == "http/protobuf" {
		endpoint = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	return endpoint, protocol
}

// check refuses an address that the library would silently replace by its own.
func (t Traces) check(demand demand) {
	name, address := "OTEL_EXPORTER_OTLP_ENDPOINT", t.Endpoint
	if t.TracesEndpoint != "" {
		name, address = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", t.TracesEndpoint
	}
	u, err := url.Parse(address)
	demand(address == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "",
		"%s: not an address such as http://collector:4318 (http without TLS, https with it)", name)
}
