package replay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestEndThatCouldNotBeAcknowledged: what succeeded while Kafka was away, and then the
// invoker was asked to stop, is reported by the next process as it ended: its ack says
// what its record does, and nothing runs again.
func TestEndThatCouldNotBeAcknowledged(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.once = true
	w.extra = append(w.extra, "CONFIG_whisk_gpu_flushDeadline=3 seconds")
	c := newCrowd(w)
	first := w.start()
	ids := c.invoke(inFlight)
	c.gate.await(inFlight)
	w.broker.Close()
	c.gate.open()
	w.awaitRecords(ids)
	first.stop()
	select {
	case <-first.ended: // with an error: it could not commit
	case <-time.After(waitLimit):
		t.Fatal("the invoker does not end")
	}
	w.startBroker()
	second := w.start()
	c.settled(ids)
	second.end()
	if runs := c.gate.runs.Load(); runs != inFlight {
		t.Errorf("%d runs of %d activations", runs, inFlight)
	}
	reported := 0
	for _, r := range w.recording.rewound() {
		if strings.Contains(r.Value, "The invoker ended") {
			t.Errorf("an ack says that it was interrupted: %.300s", r.Value)
		}
		if r.isAck() && strings.Contains(r.Value, `"result":{"n":`) {
			reported++
		}
	}
	if reported < inFlight {
		t.Errorf("%d acks have a result, of %d activations", reported, inFlight)
	}
	for i, id := range ids {
		if want := fmt.Sprintf(`"result":{"n":%d}`, i+1); !strings.Contains(string(w.record(id)), want) {
			t.Errorf("activation %d: record %.300s", i+1, w.record(id))
		}
	}
}

// TestKilledBeforeTheEndWasAcknowledged: the same where the invoker is killed while
// Kafka is away. Its journal knows how each ended.
func TestKilledBeforeTheEndWasAcknowledged(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.once = true
	c := newCrowd(w)
	first := w.spawn()
	ids := c.invoke(inFlight)
	c.gate.await(inFlight)
	w.broker.Close()
	c.gate.open()
	first.await(t, "the journal knows all ends", func(s spillStatus) bool { return s.State.Journal.Unacknowledged == inFlight })
	first.kill()
	w.startBroker()
	second := w.spawn()
	c.settled(ids)
	second.terminate()
	if runs := c.gate.runs.Load(); runs != inFlight {
		t.Errorf("%d runs of %d activations", runs, inFlight)
	}
	reported := map[string]int{}
	for _, r := range w.recording.rewound() {
		switch {
		case strings.Contains(r.Value, "The invoker ended"):
			t.Errorf("an ack says that it was interrupted: %.300s", r.Value)
		case r.isAck() && r.shape() != "completion":
			reported[r.activationID()]++
		}
	}
	for i, id := range ids {
		want := fmt.Sprintf(`"result":{"n":%d}`, i+1)
		if !strings.Contains(string(w.record(id)), want) {
			t.Errorf("activation %d: record %.300s", i+1, w.record(id))
		}
		if reported[id] != 1 {
			t.Errorf("activation %d: %d acks have its result", i+1, reported[id])
		}
	}
	w.noStrays()
}

// awaitRecords waits until each activation has its record.
func (w *fixture) awaitRecords(ids []string) {
	w.t.Helper()
	wrote := make(chan struct{}, 1)
	reported := func(r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		select {
		case wrote <- struct{}{}:
		default:
		}
	}
	w.store.served.Store(&reported)
	defer w.store.served.Store(nil)
	late := time.After(waitLimit)
	for _, id := range ids {
		for w.record(id) == nil { // which is a request, too
			select {
			case <-wrote:
			case <-late:
				w.t.Fatalf("activation %s has no record", id)
			}
		}
	}
}
