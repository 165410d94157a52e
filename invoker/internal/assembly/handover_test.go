package assembly

import (
	"context"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// A probe runs one activation through an invoker in scheduler mode without a scheduler,
// and leaves no container behind.
func TestSchedulerModeProbe(t *testing.T) {
	f := newScheduling(t)
	f.function("probe", "1-a", "0.0.1", "", 256)
	f.start()
	cfg, err := config.Load(config.Input{Environ: f.environ, Args: []string{"--id", "0"}})
	check.NoError(t, err)
	i, err := Handover(cfg, quiet)
	check.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), peertest.WaitLimit)
	defer cancel()
	took, err := i.Probe(ctx, "guest/probe")
	check.NoError(t, err)
	check.Greater(check.Must(t), took, 0)
	f.until("the container ends", func() bool { return len(f.keys("namespace/"))+len(f.keys("warmed/")) == 0 })
	_, err = i.Probe(ctx, "")
	check.ErrorContains(t, err, "invokerHealthTestAction0")
	f.mu.Lock()
	f.actions["guest/odd"] = strings.ReplaceAll(f.actions["guest/probe"], "nodejs:20", "sequence")
	f.mu.Unlock()
	_, err = i.Probe(ctx, "guest/odd") // which no container runs
	check.ErrorContains(t, err, string(activation.NonExecutable))
	check.ErrorIs(t, i.Drained(ctx, 0, nil), handover.ErrScheduled)
}
