package main

import (
	"log/slog"
	"slices"
	"testing"
)

// A standalone's invoker gets where traces go, and nothing else of the
// environment.
func TestStandaloneTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
	t.Setenv("CONFIG_whisk_gpu_policy", "fcfs")
	c := standaloneCmd{Data: t.TempDir()}
	o, err := c.options(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(o.Extra, "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318") || slices.Contains(o.Extra, "CONFIG_whisk_gpu_policy=fcfs") {
		t.Errorf("the invoker is given %q", o.Extra)
	}
}
