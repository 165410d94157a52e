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
		end   func(ctr *actionContainer, stop func())
		after time.Duration
	}{
		{"work", func(_ *actionContainer, stop func()) { stop() }, 0},
		{"removal", func(ctr *actionContainer, _ func()) { ctr.runContext.gone() }, 0},
		{"death", func(ctr *actionContainer, _ func()) { ctr.die(nil) }, finalResponse},
		{"device", func(ctr *actionContainer, _ func()) { ctr.die(errDeviceLost) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work, stop := context.WithCancel(t.Context())
				defer stop()
				ctr := &actionContainer{}
				ctr.life, ctr.die = context.WithCancelCause(context.Background())
				ctx := ctr.running(work)
				if ctr.running(work) != ctx || ctx.Err() != nil {
					t.Fatal("another one, or it has ended")
				}
				began := time.Now()
				c.end(ctr, stop)
				<-ctx.Done()
				if took := time.Since(began); took != c.after {
					t.Errorf("it ended after %s, want %s", took, c.after)
				}
				if ctr.running(work).Err() == nil {
					t.Error("a run begins in a container that is gone")
				}
				ctr.runContext.gone()
			})
		})
	}
}

// TestGoneBeforeItRan: a container that nothing ran in has nothing to be ended.
func TestGoneBeforeItRan(*testing.T) { new(runContext).gone() }

// TestDeathDuringRun: a container may end in a way that breaks no connection,
// such as when its network goes first. The run that waits for it ends soon; and
// an activation that had not even reached it runs elsewhere.
func TestDeathDuringRun(t *testing.T) {
	for _, c := range []struct {
		name         string
		sent         bool
		status, made int
	}{
		{"the action may have seen it", true, 2, 1},
		{"no connection came about", false, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := newFixture(t)
				env.action("a", nil)
				env.stall = func(n int) (sent, stalls bool) { return c.sent, n == 2 }
				_, stop := env.start(env.settings())
				env.invoke("a", nil)
				synctest.Wait()
				id := env.invoke("a", nil)
				synctest.Wait()
				began := time.Now()
				env.diedC <- "id1"
				time.Sleep(2 * finalResponse)
				stop()
				rec := env.record(id)
				if rec == nil || rec.Response.StatusCode != c.status || env.made != c.made || time.Since(began) > 3*finalResponse {
					t.Errorf("record %+v after %s in %d containers", rec, time.Since(began), env.made)
				}
			})
		})
	}
}
