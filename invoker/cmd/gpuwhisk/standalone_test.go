package main

import (
	"log/slog"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestStandaloneTakesSettingsOfTheEnvironment: the invoker of a standalone gets the
// settings in the environment and the OTEL_ variables, but no other variables. A setting
// that standalone itself controls is refused.
func TestStandaloneTakesSettingsOfTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
	t.Setenv("CONFIG_whisk_gpu_poolSize", "3")
	t.Setenv("CONFIG_whisk_timeLimit_max", "10 m")
	t.Setenv("CONFIG_other", "1")
	c := standaloneCmd{Data: t.TempDir()}
	o, err := c.options(slog.New(slog.DiscardHandler))
	check.NoError(t, err)
	check.Equal(t, len(o.Extra), 3, "%q", o.Extra)
	for _, want := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", "CONFIG_whisk_gpu_poolSize=3", "CONFIG_whisk_timeLimit_max=10 m"} {
		check.Includes(t, o.Extra, want)
	}
	check.Equal(t, o.Bounds.TimeoutMillis.Max, 600_000, "the API's bound of an action's time limit")
	for name, want := range map[string]string{
		"CONFIG_whisk_gpu_policy":  "whisk.gpu.policy (from CONFIG_whisk_gpu_policy): use --policy instead",
		"CONFIG_whisk_gpu_polSize": "whisk.gpu.pol-size (from CONFIG_whisk_gpu_polSize): no such key",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "fcfs")
			_, err := c.options(slog.New(slog.DiscardHandler))
			check.ErrorContains(t, err, want)
		})
	}
}
