package invoker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// TestCallEnds: the context of a call to a container ends with the work, and a while
// after the container's death; with a device at once.
func TestCallEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(ctr *actionContainer, stop func())
		after time.Duration
	}{
		{"work", func(_ *actionContainer, stop func()) { stop() }, 0},
		{"death", func(ctr *actionContainer, _ func()) { ctr.die(nil) }, finalResponse},
		{"device", func(ctr *actionContainer, _ func()) { ctr.die(errDeviceLost) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work, stop := context.WithCancel(t.Context())
				defer stop()
				ctr := &actionContainer{}
				ctr.life, ctr.die = context.WithCancelCause(context.Background())
				ctr.exchange(work, finalResponse, func(ctx context.Context) proxy.Exchange {
					check.NoError(t, ctx.Err(), "it has ended")
					began := time.Now()
					c.end(ctr, stop)
					<-ctx.Done()
					check.Equal(t, time.Since(began), c.after, "it ended")
					return proxy.Exchange{}
				})
				ctr.exchange(work, finalResponse, func(ctx context.Context) proxy.Exchange {
					check.That(t, ctx.Err() != nil, "a call begins in a container that is gone")
					return proxy.Exchange{}
				})
			})
		})
	}
}

// TestDeathDuringRun: a container may end without breaking a connection, for example if its
// network goes first. The waiting run ends soon. An activation that had not reached the
// container runs elsewhere.
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
			withFixture(t, func(t *testing.T, env *fixture) {
				env.action("a", nil)
				env.stall = func(n int) (sent, stalls bool) { return c.sent, n == 2 }
				_, stop := env.start(env.settings())
				env.invokeAndWait("a", 0)
				id := env.invokeAndWait("a", 0)
				began := time.Now()
				env.diedC <- "id1"
				time.Sleep(2 * finalResponse)
				stop()
				rec := env.record(id)
				check.That(check.Must(t), rec != nil, "record %+v after %s in %d containers", rec, time.Since(began), env.made)
				check.Equal(t, rec.Response.StatusCode, c.status)
				check.Equal(t, env.made, c.made)
				check.AtMost(t, time.Since(began), 3*finalResponse)
			})
		})
	}
}

// TestStatusNamesTheFunctionOfACPUContainer: people see the function of a container, not
// only its name in Docker.
func TestStatusNamesTheFunctionOfACPUContainer(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("hello", nil)
		iv, stop := env.start(env.settings())
		id := env.invoke("hello", nil)
		env.answered(id, 1)
		st := env.status(iv)
		check.Equal(check.Must(t), len(st.Containers), 1)
		check.Equal(t, st.Containers[0].Function, "guest/guest/hello")
		stop()
	})
}
