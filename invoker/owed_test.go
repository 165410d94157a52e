package invoker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// TestOwedIsWhatIsNotSafe: at the end the journal keeps how those ended whose
// record or ack is not safe, and of no others.
func TestOwedIsWhatIsNotSafe(t *testing.T) {
	for _, c := range []struct {
		name              string
		sent, stored      bool
		unlisted, blocked bool
		owed              int
	}{
		{name: "all is safe", sent: true, stored: true},
		{name: "no ack", stored: true, owed: 1},
		{name: "no record", sent: true, owed: 1},
		{name: "neither", owed: 1},
		{name: "neither, of a shared topic", unlisted: true},
		{name: "a blocked namespace, which the next process finds blocked", blocked: true},
	} {
		k := newClerk()
		tick, rec := k.ticket(true)
		tick.unlisted = c.unlisted
		k.desk.complete(tick, ending{record: rec, silent: c.blocked})
		for _, sent := range k.sent {
			if c.sent {
				sent(nil)
			}
		}
		for _, stored := range k.stored {
			if c.stored {
				stored(nil)
			}
		}
		k.desk.keepOwed()
		if len(k.owed) != c.owed {
			t.Errorf("%s: %d are owed, want %d", c.name, len(k.owed), c.owed)
		}
	}
}

// TestOwedIsKeptBeforeTheEnd: while the process works the journal is given the end
// of what waits for its acks for two looks, or for its record for ten, once; and
// again when the record has become whole.
func TestOwedIsKeptBeforeTheEnd(t *testing.T) {
	for _, c := range []struct {
		name         string
		sent, stored bool
		looks, owed  int
	}{
		{name: "one look is nothing", looks: 1, owed: 0},
		{name: "no ack", stored: true, looks: 2, owed: 1},
		{name: "no ack for long", stored: true, looks: 20, owed: 1},
		{name: "no record yet", sent: true, looks: 9, owed: 0},
		{name: "no record", sent: true, looks: 20, owed: 1},
		{name: "all is safe", sent: true, stored: true, looks: 20, owed: 0},
	} {
		k := newClerk()
		tick, rec := k.ticket(false)
		k.desk.complete(tick, ending{record: rec})
		if c.sent {
			k.sent[0](nil)
		}
		if c.stored {
			k.stored[0](nil)
		}
		for range c.looks {
			k.desk.owe(k.desk.owed.look(false))
		}
		if len(k.owed) != c.owed {
			t.Errorf("%s: %d were kept, want %d", c.name, len(k.owed), c.owed)
		}
	}
	k := newClerk()
	tick, rec := k.ticket(false)
	k.desk.answer(tick, ending{record: rec})
	for range looksForRecord {
		k.desk.owe(k.desk.owed.look(false))
	}
	k.desk.file(tick, ending{record: withLogs(rec, []string{"its last words"})})
	k.desk.owe(k.desk.owed.look(false))
	k.desk.keepOwed()
	if len(k.owed) != 2 || strings.Contains(k.owed[0], "last words") || !strings.Contains(k.owed[1], "last words") {
		t.Errorf("kept %q, want it twice, the second time whole", k.owed)
	}
}

// TestNothingIsOwedOfWhatIsRefused: an ack that a broker refuses for good is safe,
// and a record that the store refuses is.
func TestNothingIsOwedOfWhatIsRefused(t *testing.T) {
	k := newClerk()
	tick, rec := k.ticket(false)
	k.desk.complete(tick, ending{record: rec})
	k.sent[0](errors.New("no such topic"))
	k.stored[0](errors.New("refused"))
	if k.desk.keepOwed(); len(k.owed) > 0 || k.done != 1 {
		t.Errorf("owed %q, done %d", k.owed, k.done)
	}
}

// TestOwedIsTold: what an earlier process had an activation end with is what its
// controller and its record are told, success or not, and it does not run.
func TestOwedIsTold(t *testing.T) {
	for _, c := range []struct {
		name     string
		response activation.Response
	}{
		{"success", activation.Response{StatusCode: activation.StatusSuccess, Result: []byte(`{"n":7}`)}},
		{"its own error", activation.ErrorResponse(activation.StatusApplicationError, "no")},
		{"a whisk error", activation.ErrorResponse(activation.StatusWhiskError, "oh")},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.history = func(d *Delivery) {
				d.Begun, d.Attempts = true, 3
				d.Ended = fallbackRecord(d.Message, c.response, time.Now())
				d.Ended.Logs = []string{"said"}
			}
			w.action("f", nil)
			s := w.settings()
			s.Rerun = true
			_, stop := w.start(s)
			id := w.invoke("f", nil)
			synctest.Wait()
			stop()
			rec := w.record(id)
			if w.made != 0 || len(w.acks) != 1 || len(w.records) != 1 || len(w.done) != 1 || len(w.events) != 0 {
				t.Fatalf("%s: ran %d times, %d acks, %d records, done %v, %d events", c.name, w.made, len(w.acks), len(w.records), w.done, len(w.events))
			}
			if string(rec.Response.Result) != string(c.response.Result) || rec.Response.StatusCode != c.response.StatusCode || len(rec.Logs) != 1 {
				t.Errorf("%s: the record says %+v", c.name, rec)
			}
			if w.acks[0].SystemError || !w.acks[0].FreesSlot() {
				t.Errorf("%s: ack %+v", c.name, w.acks[0])
			}
		})
	}
}
