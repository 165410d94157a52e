// Command collector is OpenTelemetry's own receiver of OTLP, from its Collector,
// for tests: it writes what it takes to standard output, a request a line, as
// the Collector's JSON has it. It ends when its standard input does.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	grpc := flag.String("grpc", "127.0.0.1:4317", "address of OTLP by gRPC")
	http := flag.String("http", "127.0.0.1:4318", "address of OTLP by HTTP")
	flag.Parse()
	if err := run(*grpc, *http); err != nil {
		fmt.Fprintln(os.Stderr, "collector:", err)
		os.Exit(1)
	}
}

func run(grpc, http string) error {
	ctx := context.Background()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"grpc": map[string]any{"endpoint": grpc}, "http": map[string]any{"endpoint": http},
	}}).Unmarshal(config)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	lines := ptrace.JSONMarshaler{}
	sink, err := consumer.NewTraces(func(_ context.Context, t ptrace.Traces) error {
		line, err := lines.MarshalTraces(t)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		_, err = fmt.Printf("%s\n", line)
		return err
	})
	if err != nil {
		return err
	}
	settings := receiver.Settings{
		ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings(),
		BuildInfo: component.NewDefaultBuildInfo(),
	}
	r, err := factory.CreateTraces(ctx, settings, config, sink)
	if err != nil {
		return err
	}
	if err := r.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("{}") // it listens
	_, _ = io.Copy(io.Discard, os.Stdin)
	return r.Shutdown(ctx)
}
