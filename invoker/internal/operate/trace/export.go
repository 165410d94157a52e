package trace

import (
	"context"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// GRPC and HTTP are the supported protocols of OTLP.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// connect makes the client of the protocol. The client connects when it first sends.
func connect(ctx context.Context, c Config) (sdk.SpanExporter, error) {
	var grpc []otlptracegrpc.Option
	var web []otlptracehttp.Option
	if c.Endpoint != "" {
		grpc = append(grpc, otlptracegrpc.WithEndpointURL(c.Endpoint))
		web = append(web, otlptracehttp.WithEndpointURL(c.Endpoint))
	}
	if c.Protocol == GRPC {
		return otlptrace.New(ctx, otlptracegrpc.NewClient(grpc...))
	}
	return otlptrace.New(ctx, otlptracehttp.NewClient(web...))
}

// exporter counts the spans that the receiver accepts, and the lost spans. It logs
// the first failure after a success, and the first success after a failure. giveUp ends
// all sends.
type exporter struct {
	sdk.SpanExporter
	log    *slog.Logger
	sent   atomic.Int64
	failed atomic.Int64
	away   bool // the last batch failed; the processor's goroutine alone uses it
	quit   context.Context
	giveUp context.CancelFunc
}

func newExporter(to sdk.SpanExporter, log *slog.Logger) *exporter {
	e := &exporter{SpanExporter: to, log: log}
	e.quit, e.giveUp = context.WithCancel(context.Background())
	return e
}

// ExportSpans sends one batch. It logs failures itself and returns nil.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.quit, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.sent.Add(int64(len(spans)))
		if e.away {
			e.away = false
			e.log.Info("traces are accepted again", "lost", e.failed.Load())
		}
		return nil
	}
	e.failed.Add(int64(len(spans)))
	if !e.away {
		e.away = true
		e.log.Warn("traces cannot be sent, activations go on", "error", err)
	}
	return nil
}
