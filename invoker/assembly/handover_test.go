package assembly

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
)

// A probe runs one activation through an invoker in scheduler mode without a scheduler,
// and leaves no container behind.
func TestSchedulerModeProbe(t *testing.T) {
	f := newScheduling(t)
	f.function("probe", "1-a", "0.0.1", "", 256)
	f.start()
	cfg, err := config.Load(config.Input{Environ: f.environ, Args: []string{"--id", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	i, err := Handover(cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), peertest.WaitLimit)
	defer cancel()
	if took, err := i.Probe(ctx, "guest/probe"); err != nil || took <= 0 {
		t.Fatalf("probe: %v, %v", took, err)
	}
	f.until("the container ends", func() bool { return len(f.keys("namespace/"))+len(f.keys("warmed/")) == 0 })
	if _, err := i.Probe(ctx, ""); err == nil || !strings.Contains(err.Error(), "invokerHealthTestAction0") {
		t.Errorf("an action that is not there: %v", err)
	}
	f.mu.Lock()
	f.actions["guest/odd"] = strings.ReplaceAll(f.actions["guest/probe"], "nodejs:20", "sequence")
	f.mu.Unlock()
	if _, err := i.Probe(ctx, "guest/odd"); err == nil || !strings.Contains(err.Error(), string(activation.NonExecutable)) {
		t.Errorf("an action that no container runs: %v", err)
	}
	if err := i.Drained(ctx, 0, nil); !errors.Is(err, handover.ErrScheduled) {
		t.Errorf("drained: %v", err)
	}
	if _, err := i.Load(ctx, nil); !errors.Is(err, handover.ErrScheduled) {
		t.Errorf("load: %v", err)
	}
}
