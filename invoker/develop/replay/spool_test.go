package replay

import (
	"testing"
	"time"
)

// TestRecordsOutliveTheInvoker: an invoker that stops while the database is away
// leaves its records on disk, and the next one writes them. Nothing runs twice.
func TestRecordsOutliveTheInvoker(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	c := newCrowd(w)
	c.gate.open()
	first := w.start()
	c.settled(c.invoke(1)) // the action is known from here on
	w.store.shut()
	c.settled(c.invoke(inFlight))
	first.end()
	w.store.open()
	second := w.start()
	c.settled(c.invoke(1))
	late := time.After(waitLimit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, id := range c.ids {
		for w.record(id) == nil {
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("the record of %s is not written", id)
			}
		}
	}
	second.end()
	c.check()
	if runs := c.gate.runs.Load(); int(runs) != len(c.ids) {
		t.Errorf("%d runs of %d activations", runs, len(c.ids))
	}
}
