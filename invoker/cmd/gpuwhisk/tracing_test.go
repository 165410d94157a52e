package main

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// A standalone's invoker gets where traces go, and nothing else of the
// environment.
func TestStandaloneTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
	t.Setenv("CONFIG_whisk_gpu_policy", "fcfs")
	c := standaloneCmd{Data: t.TempDir()}
	o, err := c.options(slog.New(slog.DiscardHandler))
	check.NoError(t, err)
	check.Includes(t, o.Extra, "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318")
	check.That(t, !slices.Contains(o.Extra, "CONFIG_whisk_gpu_policy=fcfs"), "%q", o.Extra)
}
