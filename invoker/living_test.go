package invoker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestRunningEnds: the runs of a container share a context, which ends with the
// work, with the container, and a while after a death; with a device at once.
func TestRunningEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(b *box, stop func())
		after time.Duration
	}{
		{"work", func(_ *box, stop func()) { stop() }, 0},
		{"removal", func(b *box, _ func()) { b.living.gone() }, 0},
		{"death", func(b *box, _ func()) { b.die(nil) }, lastWords},
		{"device", func(b *box, _ func()) { b.die(errDeviceLost) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work, stop := context.WithCancel(t.Context())
				defer stop()
				b := &box{}
				b.life, b.die = context.WithCancelCause(context.Background())
				ctx := b.running(work)
				if b.running(work) != ctx || ctx.Err() != nil {
					t.Fatal("another one, or it has ended")
				}
				began := time.Now()
				c.end(b, stop)
				<-ctx.Done()
				if took := time.Since(began); took != c.after {
					t.Errorf("it ended after %s, want %s", took, c.after)
				}
				if b.running(work).Err() == nil {
					t.Error("a run begins in a container that is gone")
				}
				b.living.gone()
			})
		})
	}
}

// TestGoneBeforeItRan: a container that nothing ran in has nothing to be ended.
func TestGoneBeforeItRan(*testing.T) { new(living).gone() }
