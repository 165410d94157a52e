// Package trace exports to OpenTelemetry each activation that has ended: one
// activation is one trace, or a part of the trace that its message came with.
// Its spans are made afterwards from the activation's trace, so that nothing
// of it is done while the activation runs.
//
// Ended puts the trace into a bounded queue and never blocks; what does not
// fit is counted and dropped. One goroutine makes spans of the queue, and the
// library's batch processor has one that sends them. Both end with Close.
//
// It is not a log: what was asked for and what was answered is in no span.
package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/gpuwhisk/gpuwhisk/invoker/operate/explain"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// Config is what the library does not find in its own variables.
type Config struct {
	Protocol string // grpc, or http/protobuf
	// Endpoint is where traces go, with its path, empty for the library's default
	// on this machine.
	Endpoint string
	Instance string // the invoker's name among its peers
	Version  string
}

// waiting is how many traces may wait to become spans. Each is about 1 KB;
// more than that waits only where the receiver is away.
const waiting = 1024

// longestContext bounds a message's trace context; a real one has some hundred
// bytes.
const longestContext = 4 << 10

// Tracer makes spans of traces and sends them.
type Tracer struct {
	queue    chan ended
	stop     chan struct{} // Close was called
	done     chan struct{} // the goroutine has ended
	provider *sdk.TracerProvider
	tracer   api.Tracer
	out      *exporter
	dropped  atomic.Int64
}

// ended is an activation that is over, and the trace context of its message.
type ended struct {
	trace   explain.Trace
	context []byte
}

// New starts a tracer. It does not wait for the receiver to be there. The
// sampler, the limits of spans and batches, headers, certificates and the
// resource's attributes are those of the OTEL_* variables, which the library
// reads.
func New(ctx context.Context, c Config, log *slog.Logger) (*Tracer, error) {
	client, err := connect(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	what, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "gpuwhisk"), attribute.String("service.version", c.Version),
			attribute.String("service.instance.id", c.Instance)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this process to the receiver of traces: %w", err)
	}
	t := &Tracer{
		queue: make(chan ended, waiting), stop: make(chan struct{}), done: make(chan struct{}),
		out: newExporter(client, log),
	}
	// The processor waits for the receiver, so that only the queue here
	// overflows: what is lost is lost in whole traces, and counted.
	t.provider = sdk.NewTracerProvider(sdk.WithResource(what),
		sdk.WithSpanProcessor(sdk.NewBatchSpanProcessor(t.out, sdk.WithBlocking())))
	t.tracer = t.provider.Tracer("github.com/gpuwhisk/gpuwhisk", api.WithInstrumentationVersion(c.Version))
	go t.work()
	return t, nil
}

// Ended exports an activation that is over. It copies what it keeps.
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

// Stats is what has become of traces so far.
type Stats struct {
	Dropped int64 // activations whose trace found the queue full
	Sent    int64 // spans that the receiver took
	Failed  int64 // spans that it did not take, after all attempts
}

// Stats may be called from any goroutine.
func (t *Tracer) Stats() Stats {
	return Stats{Dropped: t.dropped.Load(), Sent: t.out.sent.Load(), Failed: t.out.failed.Load()}
}

// Close sends what waits, until ctx ends; what is left then is dropped.
func (t *Tracer) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, t.out.giveUp)()
	close(t.stop)
	<-t.done
	// It is not left half done when ctx ends: then nothing it does takes time.
	if err := t.provider.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// work makes spans until Close, and then of what is left.
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
