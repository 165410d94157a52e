package trace

import (
	"context"
	"encoding/json"
	"strings"

	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel/propagation"
)

// known reads the trace context of a message. A controller with Zipkin writes B3's
// fields into it (OpenTracingProvider.scala: a text map): X-B3-TraceId, X-B3-SpanId,
// X-B3-Sampled. W3C's traceparent is read, too, and wins over B3, because it has the
// whole id.
var known = propagation.NewCompositeTextMapPropagator(b3.New(), propagation.TraceContext{})

// carrier is a text map whose keys are in lower case.
type carrier map[string]string

func (c carrier) Get(key string) string { return c[strings.ToLower(key)] }
func (c carrier) Set(string, string)    {}
func (c carrier) Keys() []string        { return nil }

// extract adds the span in a message's trace context to ctx. It returns ctx unchanged
// if the context is malformed or has no span.
func extract(ctx context.Context, text []byte) context.Context {
	var all map[string]any
	if json.Unmarshal(text, &all) != nil {
		return ctx
	}
	c := carrier{}
	for k, v := range all {
		if s, ok := v.(string); ok {
			c[strings.ToLower(k)] = s
		}
	}
	return known.Extract(ctx, c)
}
