package assembly_test

import (
	"context"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// A probe runs one activation through an invoker in scheduler mode without a scheduler,
// and leaves no container behind.
func TestSchedulerModeProbe(t *testing.T) {
	f := newScheduling(t)
	f.function("probe", 256)
	f.start()
	cfg, err := config.Load(config.Input{Environ: f.Environment(), Args: f.Args(0)})
	check.NoError(t, err)
	i, err := assembly.Handover(cfg, f.Log)
	check.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), peertest.WaitLimit)
	defer cancel()
	took, err := i.Probe(ctx, "guest/probe")
	check.NoError(t, err)
	check.Greater(check.Must(t), took, 0)
	f.until("the container ends", func() bool { return len(f.keys("namespace/"))+len(f.keys("warmed/")) == 0 })
	_, err = i.Probe(ctx, "")
	check.ErrorContains(t, err, "invokerHealthTestAction0")
	f.Put(harness.Action{Name: "odd", Kind: "sequence", Timeout: time.Minute})
	_, err = i.Probe(ctx, "guest/odd") // which no container runs
	check.ErrorContains(t, err, string(activation.NonExecutable))
	check.ErrorIs(t, i.Drained(ctx, 0, nil), handover.ErrScheduled)
}
