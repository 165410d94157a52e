package invoker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
)

// TestReportedIsKeptBefore: the journal has an end before a caller that waits or a
// reader of events gets it, once, and of no end else.
func TestReportedIsKeptBefore(t *testing.T) {
	for _, c := range []struct {
		name                                 string
		blocking, resulted, events, unlisted bool
		end                                  delivery.End
		want                                 string
	}{
		{name: "a caller waits", blocking: true, want: "kept combined"},
		{name: "the result goes first", blocking: true, resulted: true, want: "kept result completion"},
		{name: "an event is sent", events: true, want: "kept event completion"},
		{name: "both", blocking: true, resulted: true, events: true, want: "kept result event completion"},
		{name: "only the slot is freed", want: "completion"},
		{name: "a message that the journal does not list", blocking: true, unlisted: true, want: "combined"},
		{name: "a blocked namespace", blocking: true, events: true, end: delivery.End{Silent: true}, want: "combined"},
		{name: "an end that the journal has", blocking: true, events: true, end: delivery.End{Repeated: true}, want: "combined"},
	} {
		k := newClerk(c.events)
		p, rec := k.pendingOf(Delivery{NotJournaled: c.unlisted}, c.blocking)
		c.end.Record = rec
		if c.resulted {
			k.result(p, rec)
		}
		k.completer.end(p, ending{End: c.end})
		check.Equal(t, strings.Join(k.order, " "), c.want, "%s", c.name)
		if len(k.unacknowledged) > 0 && k.unacknowledged[0] != string(rec.Document(epoch)) {
			t.Errorf("%s: kept %s", c.name, k.unacknowledged[0])
		}
	}
}

// TestRecordIsWhatWasReported: when a worker panics between the result and the
// completion, the record has the result.
func TestRecordIsWhatWasReported(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", nil)
		env.logging = func() { panic("no logs") }
		_, stop := env.start(env.settings())
		id := env.invoke("f", func(m *activation.Message) { m.Blocking = true })
		synctest.Wait()
		stop()
		check.Equal(check.Must(t), len(env.acks), 2)
		check.Equal(check.Must(t), env.acks[0].Kind, activation.Result)
		check.Equal(check.Must(t), env.acks[1].Kind, activation.Completion)
		rec := env.record(id)
		check.Equal(t, rec.Response.StatusCode, activation.StatusSuccess, "the caller had a success, the record")
		check.Equal(t, string(rec.Response.Result), `{"ok":true}`, "the caller had a success, the record")
	})
}

// TestUnacknowledgedIsWhatIsNotSafe: at the end the journal keeps how those ended whose
// record or ack is not safe, and of no others.
func TestUnacknowledgedIsWhatIsNotSafe(t *testing.T) {
	for _, c := range []struct {
		name              string
		sent, stored      bool
		refusal           error // with which both end
		unlisted, blocked bool
		unacknowledged    int
	}{
		{name: "all is safe", sent: true, stored: true},
		{name: "broker and store refuse them for good", sent: true, stored: true, refusal: errors.New("no such topic")},
		{name: "no ack", stored: true, unacknowledged: 1},
		{name: "no record", sent: true, unacknowledged: 1},
		{name: "neither", unacknowledged: 1},
		{name: "neither, of a shared topic", unlisted: true},
		{name: "a blocked namespace, which the next process finds blocked", blocked: true},
	} {
		k := newClerk(false)
		tick, rec := k.pendingOf(Delivery{NotJournaled: c.unlisted}, false)
		k.completer.end(tick, ending{End: delivery.End{Record: rec, Silent: c.blocked}})
		for _, sent := range k.sent {
			if c.sent {
				sent(c.refusal)
			}
		}
		for _, stored := range k.stored {
			if c.stored {
				stored(c.refusal)
			}
		}
		k.completer.stop()
		check.Equal(t, len(k.unacknowledged), c.unacknowledged, "%s", c.name)
		check.That(t, (k.done == 1) == (c.sent && c.stored), "%s: %d are unacknowledged, want %d; done %d", c.name, len(k.unacknowledged), c.unacknowledged, k.done)
	}
}

// TestUnacknowledgedIsKeptBeforeTheEnd: while the process works the journal gets the end of
// an activation whose ack is not sent for two ticks, or whose record is not stored for ten
// ticks, once. It gets the end again when the record is complete.
func TestUnacknowledgedIsKeptBeforeTheEnd(t *testing.T) {
	for _, c := range []struct {
		name                  string
		sent, stored          bool
		polls, unacknowledged int
	}{
		{name: "one look is nothing", polls: 1, unacknowledged: 0},
		{name: "no ack", stored: true, polls: 2, unacknowledged: 1},
		{name: "no ack for long", stored: true, polls: 20, unacknowledged: 1},
		{name: "no record yet", sent: true, polls: 9, unacknowledged: 0},
		{name: "no record", sent: true, polls: 20, unacknowledged: 1},
		{name: "all is safe", sent: true, stored: true, polls: 20, unacknowledged: 0},
	} {
		k := newClerk(false)
		tick, rec := k.pending(false)
		k.completer.end(tick, ending{End: delivery.End{Record: rec}})
		if c.sent {
			k.sent[0](nil)
		}
		if c.stored {
			k.stored[0](nil)
		}
		for range c.polls {
			k.tick()
		}
		check.Equal(t, len(k.unacknowledged), c.unacknowledged, "%s", c.name)
	}
	k := newClerk(false)
	tick, rec := k.pending(false)
	k.completer.take(tick, delivery.Event{Kind: delivery.Answered, End: delivery.End{Record: rec, Store: true}})
	for range 10 {
		k.tick()
	}
	logged := *rec
	logged.Logs = []string{"its last words"}
	k.completer.take(tick, delivery.Event{Kind: delivery.Filed, End: delivery.End{Record: &logged, Store: true}})
	k.tick()
	k.completer.stop()
	check.Equal(check.Must(t), len(k.unacknowledged), 2)
	check.Lacks(t, k.unacknowledged[0], "last words")
	check.Contains(t, k.unacknowledged[1], "last words")
}

// TestUnacknowledgedEndingIsSentAgain: the controller and the record get the end that an
// activation had in an earlier process, success or not, and the activation does not run.
func TestUnacknowledgedEndingIsSentAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		response activation.Response
	}{
		{"success", activation.Response{StatusCode: activation.StatusSuccess, Result: []byte(`{"n":7}`)}},
		{"its own error", activation.ErrorResponse(activation.StatusApplicationError, "no")},
		{"a whisk error", activation.ErrorResponse(activation.StatusWhiskError, "oh")},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.history = func(d *Delivery) {
				d.Begun, d.Attempts = true, 3
				d.Ended = ofPending(d.Message, nil).record(c.response, time.Now())
				d.Ended.Logs = []string{"a line"}
			}
			env.action("f", nil)
			s := env.settings()
			s.Rerun = true
			_, stop := env.start(s)
			id := env.invokeAndWait("f", 0)
			stop()
			rec := env.record(id)
			check.Equal(check.Must(t), env.made, 0, "%s: ran", c.name)
			check.Equal(check.Must(t), len(env.acks), 1, "%s: ran", c.name)
			check.Equal(check.Must(t), len(env.records), 1, "%s: ran", c.name)
			check.Equal(check.Must(t), len(env.done), 1, "%s: ran", c.name)
			check.Equal(check.Must(t), len(env.events), 0, "%s: ran", c.name)
			check.Equal(t, string(rec.Response.Result), string(c.response.Result), "%s: the record", c.name)
			check.Equal(t, rec.Response.StatusCode, c.response.StatusCode, "%s: the record", c.name)
			check.Equal(t, len(rec.Logs), 1, "%s: the record", c.name)
			check.That(t, !env.acks[0].SystemError, "%s: ack %+v", c.name, env.acks[0])
			check.That(t, env.acks[0].FreesSlot(), "%s: ack %+v", c.name, env.acks[0])
		})
	}
}

// TestHandedOutTwiceWithoutAJournal: activations in progress are known without a journal,
// until their acks and records are safe.
func TestHandedOutTwiceWithoutAJournal(t *testing.T) {
	k := newClerk(false)
	k.completer.journal = nil
	m := message()
	fetch := func() (Delivery, bool) {
		d := Delivery{Message: m, Done: func() { k.done++ }}
		fresh := k.completer.fetch(&d, []byte("message"))
		return d, fresh
	}
	d, fresh := fetch()
	check.That(check.Must(t), fresh, "the first copy is dropped")
	_, fresh = fetch()
	check.That(t, !fresh, "a second copy is used while the first waits for a permit")
	k.completer.reserve(t.Context())
	p := k.completer.accept(d)
	check.NoError(t, k.completer.begin(t.Context(), p))
	_, fresh = fetch()
	check.That(t, !fresh, "a second copy is used while the first runs")
	k.completer.end(p, *appError("no"))
	_, fresh = fetch()
	check.That(t, !fresh, "a second copy is used before the first is safe")
	k.sent[0](nil)
	k.stored[0](nil)
	check.Equal(t, k.done, 1)
	_, fresh = fetch()
	check.That(t, fresh, "without a journal nothing is known of completed activations")
}
