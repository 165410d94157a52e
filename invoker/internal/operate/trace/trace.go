// Package trace exports ended activations to OpenTelemetry. An activation becomes one
// trace, or a part of the trace that its message names. The spans are made after the
// end of the activation, so that tracing does not slow the activation down.
//
// Ended puts the trace into a bounded queue and never blocks. If the queue is full,
// the trace is dropped and counted. One goroutine makes the spans, and the library's
// batch processor has another goroutine that sends them. Both end with Close.
//
// Spans never contain the parameters or the result of an activation.
package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// Config holds the settings that the library does not read from its own variables.
type Config struct {
	Protocol string // grpc, or http/protobuf
	// Endpoint is the URL of the receiver, with its path. Empty means the library's
	// default on this machine.
	Endpoint string
	Instance string // the invoker's name among its peers
	Version  string
}

// queueCapacity is the number of traces that may wait to become spans, about 1 KB each. The
// queue fills up only while the receiver is away.
const queueCapacity = 1024

// longestContext bounds the trace context of a message. A usual one has some hundred
// bytes; a longer one is ignored.
const longestContext = 4 << 10

// Tracer makes spans of traces and sends them.
type Tracer struct {
	queue    chan ended
	stop     chan struct{} // Close was called
	done     chan struct{} // the goroutine has ended
	provider *sdk.TracerProvider
	tracer   api.Tracer
	exporter *exporter
	dropped  atomic.Int64
}

// ended is an ended activation, and the trace context of its message.
type ended struct {
	trace   explain.Trace
	context []byte
}

// New starts a tracer. It does not wait for the receiver. The library reads the sampler,
// the limits of spans and batches, headers, certificates and the resource's attributes
// from the OTEL_* variables.
func New(ctx context.Context, c Config, log *slog.Logger) (*Tracer, error) {
	client, err := connect(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	process, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "gpuwhisk"), attribute.String("service.version", c.Version),
			attribute.String("service.instance.id", c.Instance)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this process to the receiver of traces: %w", err)
	}
	t := &Tracer{
		queue: make(chan ended, queueCapacity), stop: make(chan struct{}), done: make(chan struct{}),
		exporter: newExporter(client, log),
	}
	// The processor blocks while the receiver is slow. So only our own queue can
	// overflow, and it drops whole traces and counts them.
	t.provider = sdk.NewTracerProvider(sdk.WithResource(process),
		sdk.WithSpanProcessor(sdk.NewBatchSpanProcessor(t.exporter, sdk.WithBlocking())))
	t.tracer = t.provider.Tracer("github.com/gpuwhisk/gpuwhisk", api.WithInstrumentationVersion(c.Version))
	go t.work()
	return t, nil
}

// Ended exports an ended activation. It copies the trace and the context.
func (t *Tracer) Ended(a *explain.Trace, context json.RawMessage) {
	e := ended{trace: a.Copy()}
	if len(context) <= longestContext {
		e.context = slices.Clone(context)
	}
	select {
	case t.queue <- e:
	default:
		t.dropped.Add(1)
	}
}

// Stats counts traces and spans since the start.
type Stats struct {
	Dropped int64 // activations that were dropped because the queue was full
	Sent    int64 // spans that the receiver accepted
	Failed  int64 // spans that the receiver refused or did not get, after all attempts
}

// Stats is safe for concurrent use.
func (t *Tracer) Stats() Stats {
	return Stats{Dropped: t.dropped.Load(), Sent: t.exporter.sent.Load(), Failed: t.exporter.failed.Load()}
}

// Close sends the traces that wait. When ctx ends, it drops the rest.
func (t *Tracer) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, t.exporter.giveUp)()
	close(t.stop)
	<-t.done
	// After giveUp every send fails at once, so the shutdown needs no deadline.
	if err := t.provider.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// work makes spans until Close, and empties the queue before it returns.
func (t *Tracer) work() {
	defer close(t.done)
	for stopped := false; !stopped || len(t.queue) > 0; {
		select {
		case e := <-t.queue:
			spans(extract(context.Background(), e.context), t.tracer, &e.trace)
		case <-t.stop:
			stopped = true
		}
	}
}
