package hostsim

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestAllEndsWhileActivationsMayArrive: under a low load, the simulation continues when
// nothing is left to do before the end of the workload.
func TestAllEndsWhileActivationsMayArrive(t *testing.T) {
	cfg := hosts(t, "equal", 0.2, 2*time.Minute)
	cfg.Workload.Horizon = time.Hour
	r := run(t, cfg)
	check.Equal(t, r.Ended, len(cfg.Workload.Arrivals))
	check.Equal(check.Must(t), len(r.Service), len(cfg.Workload.Functions))
	check.Greater(t, r.Fairness(), 0)
	check.AtMost(t, r.Fairness(), 1)
}
