package config

import (
	"fmt"
	"net/url"
)

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

// Target is where traces go and how; whole tells that the address is that of
// traces alone. An empty one is the library's default on this machine.
func (t Traces) Target() (endpoint, protocol string, whole bool) {
	if endpoint, whole = t.Endpoint, t.TracesEndpoint != ""; whole {
		endpoint = t.TracesEndpoint
	}
	if protocol = t.Protocol; t.TracesProtocol != "" {
		protocol = t.TracesProtocol
	}
	return endpoint, protocol, whole
}

func traceKeys(c *Config) []*Key {
	t := &c.Traces
	const protocols = ": http/protobuf or grpc"
	return []*Key{
		{Name: "otel.traces.exporter", Env: "OTEL_TRACES_EXPORTER", legacy: true, value: choice(&t.Exporter, "", "otlp", "none"),
			Doc: "otlp sends a trace of each activation by OTLP, none sends nothing; empty sends where an endpoint is named below"},
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
	endpoint, _, whole := t.Target()
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return nil
	}
	name := "OTEL_EXPORTER_OTLP_ENDPOINT"
	if whole {
		name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	}
	return fmt.Errorf("%s: not an address such as http://collector:4318 (http without TLS, https with it)", name)
}
