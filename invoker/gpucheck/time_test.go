package gpucheck

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestOutOfTime(t *testing.T) {
	s := small(t, "FAKE_CUDA_BANDWIDTH=1000")
	s.Steps, s.Limit = []string{"swap", "overhead"}, 2*time.Second
	r := check(t, s)
	for _, step := range r.Steps {
		if step.Verdict != Failed || !strings.Contains(step.Reason, "out of time") {
			t.Errorf("%s: %s (%s)", step.Name, step.Verdict, step.Reason)
		}
	}
}

func TestInterrupted(t *testing.T) {
	s := small(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Run(ctx, s); err == nil {
		t.Errorf("verdict %s of a check that was interrupted", r.Verdict)
	}
}
