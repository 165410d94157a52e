package config

import (
	"fmt"
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
	Level  string
	Format string
}

// LogFiles is where DockerToActivationFileLogStore writes.
type LogFiles struct {
	Enabled bool
	Dir     string
	Size    Size
}

func (f LogFiles) check(demand func(bool, string, ...any)) {
	demand(!f.Enabled || filepath.IsAbs(f.Dir), "whisk.gpu.log.directory %q is not an absolute path", f.Dir)
}

func logKeys(c *Config) []*Key {
	return []*Key{
		{Name: "whisk.gpu.log.directory", Default: "/logs", value: text(&c.Logs.Files.Dir),
			Doc: "where DockerToActivationFileLogStoreProvider (whisk.spi.LogStoreProvider) writes userlogs-TIME.log"},
		{Name: "whisk.gpu.log.file-size", Default: "100 MiB", value: size(&c.Logs.Files.Size, 1<<10),
			Doc: "size at which the next of those files begins, and how much waits in memory for a slow disk; what is more is dropped from the files, never from a record"},
		{Name: "whisk.gpu.log.level", also: []string{"logback.log.level"}, Default: "INFO",
			value: choice(&c.Logs.Level, "TRACE", "DEBUG", "INFO", "WARN", "ERROR"),
			Doc:   "least level of the invoker's own log lines"},
		{Name: "whisk.gpu.log.format", Default: "openwhisk", value: choice(&c.Logs.Format, "openwhisk", "text", "json"),
			Doc: "form of the invoker's own log lines; openwhisk is what existing log pipelines match"},
	}
}

// Events is the stream of user events.
type Events struct {
	Enabled bool
}

func eventKeys(c *Config) []*Key {
	return []*Key{
		{Name: "whisk.user-events.enabled", Default: "false", value: boolean(&c.Events.Enabled),
			Doc: "send an event for each activation to the user events topic"},
	}
}

// Metrics is what is measured and where it goes.
type Metrics struct {
	Kamon      bool
	Prometheus bool
	Endpoint   bool
	Tags       bool
	Log        bool
	StatsD     StatsD
}

// Names reports whether /metrics shows Kamon's names beside ours.
func (m Metrics) Names() bool { return m.Kamon }

// Served reports whether /metrics answers.
func (m Metrics) Served() bool { return m.Endpoint || m.Kamon && m.Prometheus }

func metricKeys(c *Config) []*Key {
	m := &c.Metrics
	return append([]*Key{
		{Name: "whisk.metrics.kamon-enabled", Env: "METRICS_KAMON", Default: "false", value: boolean(&m.Kamon),
			Doc: "with prometheus-enabled, serve /metrics; name metrics as OpenWhisk's invoker does too"},
		{Name: "whisk.metrics.kamon-tags-enabled", Env: "METRICS_KAMON_TAGS", Default: "false", value: boolean(&m.Tags),
			Doc: "states and topics are labels of those names instead of parts, as OpenWhisk's Grafana boards expect"},
		{Name: "whisk.metrics.logs-enabled", Env: "METRICS_LOG", Default: "false", value: boolean(&m.Log),
			Doc: "write OpenWhisk's line with a [marker:...] for each step of an activation, at level INFO"},
		{Name: "whisk.metrics.prometheus-enabled", Default: "false", value: boolean(&m.Prometheus),
			Doc: "with kamon-enabled, serve /metrics"},
		{Name: "whisk.gpu.metrics.enabled", Default: "true", value: boolean(&m.Endpoint),
			Doc: "serve /metrics whatever the two keys above say"},
	}, statsdKeys(&m.StatsD)...)
}

// Drain is how the invoker leaves.
type Drain struct {
	Deadline time.Duration
	Flush    time.Duration
	Handover bool
	Rerun    bool
}

func drainKeys(c *Config) []*Key {
	return []*Key{
		{Name: "whisk.gpu.drain-deadline", Default: "30 seconds", value: duration(&c.Drain.Deadline),
			Doc: "how long running activations may take to finish after SIGTERM"},
		{Name: "whisk.gpu.flush-deadline", Default: "10 seconds", value: duration(&c.Drain.Flush),
			Doc: "how long acks and records may take to leave after that"},
		{Name: "whisk.gpu.handover", Default: "true", value: boolean(&c.Drain.Handover),
			Doc: "adopt warm containers of the previous process, and leave one's own to the next at SIGTERM (not after POST /disable or Ctrl-C); false removes all, as OpenWhisk does; gpuwhisk clean removes what was left; needs whisk.gpu.journal"},
		{Name: "whisk.invoker.rerun", Default: "false", value: boolean(&c.Drain.Rerun),
			Doc: "run an activation again that was running when the invoker ended, up to three times; false answers it with an error; an action's annotation rerun goes first"},
	}
}

// StatsD is the agent that gets metrics by UDP, as Kamon's reporter sends them.
type StatsD struct {
	Hostname string // empty: nothing is sent
	Port     int
	Interval time.Duration
	Packet   Size
	Service  string
}

// Address is host:port of the agent.
func (s StatsD) Address() string { return net.JoinHostPort(s.Hostname, strconv.Itoa(s.Port)) }

// Sent reports whether metrics go to StatsD.
func (m Metrics) Sent() bool { return m.Kamon && m.StatsD.Hostname != "" }

// Bounds of what StatsD can be given: more often costs and shows nothing new,
// and a datagram holds no more.
const (
	leastTick  = 100 * time.Millisecond
	mostTick   = time.Hour
	mostPacket = 65507
)

func statsdKeys(s *StatsD) []*Key {
	return []*Key{
		{Name: "kamon.statsd.hostname", value: text(&s.Hostname),
			Doc: "with kamon-enabled, StatsD agent that gets the metrics of OpenWhisk's invoker by UDP; empty sends nothing"},
		{Name: "kamon.statsd.port", Default: "8125", value: integer(&s.Port, 1, 65535),
			Doc: "port of the StatsD agent"},
		{Name: "kamon.metric.tick-interval", also: []string{"kamon.statsd.flush-interval"}, Default: "1 second", value: duration(&s.Interval),
			Doc: "how often metrics are sent to StatsD, from 100 ms to 1 h"},
		{Name: "kamon.statsd.max-packet-size", Default: "1 KiB", value: size(&s.Packet, 64),
			Doc: "most bytes of one packet to StatsD, at most 65507"},
		{Name: "kamon.environment.service", Default: "openwhisk-statsd", value: text(&s.Service),
			Doc: "first part of the names in StatsD: service.invokerN.name, then each label and its value"},
	}
}

// check refuses what cannot be sent.
func (s StatsD) check(demand func(bool, string, ...any)) {
	demand(s.Interval >= leastTick && s.Interval <= mostTick, "kamon.metric.tick-interval %s is not from 100 ms to 1 h", formatDuration(s.Interval))
	demand(s.Packet <= mostPacket, "kamon.statsd.max-packet-size %v is above the %d bytes that a datagram holds", s.Packet, mostPacket)
	demand(s.Service != "" && !strings.ContainsAny(s.Service, ":|@ \t\r\n"),
		"kamon.environment.service %q does not begin a name in StatsD: it must not be empty nor have blanks, ':', '|' or '@'", s.Service)
}

// Traces is where OpenTelemetry's spans go. The variables are those that
// OpenTelemetry names; what is not here (headers, certificates, sampler, limits
// of batches, attributes of the resource) its library reads by itself.
type Traces struct {
	Disabled bool
	Exporter string // otlp, none, or empty: otlp where an endpoint is named
	// Endpoint is the base of all signals' addresses, TracesEndpoint that of
	// traces alone, which counts first. Protocol likewise.
	Endpoint       string
	TracesEndpoint string
	Protocol       string
	TracesProtocol string
}

// On reports whether traces are sent.
func (t Traces) On() bool {
	return !t.Disabled && (t.Exporter == "otlp" || t.Exporter == "" && t.Endpoint+t.TracesEndpoint != "")
}

// Target is where traces go and how; tracesOnly: the address is that of
// traces alone. An empty one is the library's default on this machine.
func (t Traces) Target() (endpoint, protocol string, tracesOnly bool) {
	if endpoint, tracesOnly = t.Endpoint, t.TracesEndpoint != ""; tracesOnly {
		endpoint = t.TracesEndpoint
	}
	if protocol = t.Protocol; t.TracesProtocol != "" {
		protocol = t.TracesProtocol
	}
	return endpoint, protocol, tracesOnly
}

func traceKeys(c *Config) []*Key {
	t := &c.Traces
	const protocols = ": http/protobuf or grpc"
	return []*Key{
		{Name: "otel.traces.exporter", Env: "OTEL_TRACES_EXPORTER", legacy: true, value: choice(&t.Exporter, "", "otlp", "none"),
			Doc: "otlp sends a trace of each activation, none nothing; empty sends where an endpoint is named below"},
		{Name: "otel.exporter.otlp.endpoint", Env: "OTEL_EXPORTER_OTLP_ENDPOINT", legacy: true, value: text(&t.Endpoint),
			Doc: "where OTLP goes, such as http://collector:4318; http/protobuf adds /v1/traces"},
		{Name: "otel.exporter.otlp.traces.endpoint", Env: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", legacy: true, value: text(&t.TracesEndpoint),
			Doc: "where traces go, before the key above; taken as it is"},
		{Name: "otel.exporter.otlp.protocol", Env: "OTEL_EXPORTER_OTLP_PROTOCOL", legacy: true, Default: "http/protobuf",
			value: choice(&t.Protocol, "http/protobuf", "grpc"), Doc: "how OTLP is spoken" + protocols},
		{Name: "otel.exporter.otlp.traces.protocol", Env: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", legacy: true,
			value: choice(&t.TracesProtocol, "", "http/protobuf", "grpc"), Doc: "the same for traces, before the key above"},
		{Name: "otel.sdk.disabled", Env: "OTEL_SDK_DISABLED", legacy: true, Default: "false", value: boolean(&t.Disabled),
			Doc: "send no traces, whatever the other keys say"},
	}
}

// validate refuses an address that the library would replace by its own without
// a word.
func (t Traces) validate() error {
	if !t.On() {
		return nil
	}
	endpoint, _, tracesOnly := t.Target()
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return nil
	}
	name := "OTEL_EXPORTER_OTLP_ENDPOINT"
	if tracesOnly {
		name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	}
	return fmt.Errorf("%s: not an address such as http://collector:4318 (http without TLS, https with it)", name)
}
