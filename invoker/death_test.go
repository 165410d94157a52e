package invoker

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDeathDuringRun: a container may end in a way that breaks no connection,
// such as when its network goes first. Who waits for it hears that soon; and
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
				w := newWorld(t)
				w.action("a", nil)
				w.stall = func(n int) (sent, stalls bool) { return c.sent, n == 2 }
				_, stop := w.start(w.settings())
				w.invoke("a", nil)
				synctest.Wait()
				id := w.invoke("a", nil)
				synctest.Wait()
				began := time.Now()
				w.diedC <- "id1"
				time.Sleep(2 * lastWords)
				stop()
				rec := w.record(id)
				if rec == nil || rec.Response.StatusCode != c.status || w.made != c.made || time.Since(began) > 3*lastWords {
					t.Errorf("record %+v after %s in %d containers", rec, time.Since(began), w.made)
				}
			})
		})
	}
}
