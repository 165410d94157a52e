package invoker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// away is a database that answers nothing until whoever asks gives up.
type away struct{}

func (away) Action(ctx context.Context, id, _ string) (*activation.Action, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("get %s: %w", id, context.Cause(ctx))
}

// An activation that waits for the database when the invoker ends is answered by
// nobody: that its action could not be fetched would be said of a database that
// may be well by the time the next process asks.
func TestStopWhileTheDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.settings()
		s.Drain = time.Second
		_, stop := w.start(s, func(iv *Invoker) { iv.ports.Actions = away{} })
		id := w.invoke("f", nil)
		synctest.Wait()
		stop()
		synctest.Wait()
		if kinds := w.kinds(id); len(kinds) > 0 || w.record(id) != nil || len(w.done) > 0 {
			t.Errorf("acks %v, record %v, done %v; want nothing of an activation that comes again", kinds, w.record(id), w.done)
		}
	})
}
