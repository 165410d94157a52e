package invoker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestReportedIsKeptBefore: the journal has an end before a caller that waits or a
// reader of events gets it, once, and of no end else.
func TestReportedIsKeptBefore(t *testing.T) {
	for _, c := range []struct {
		name                                 string
		blocking, resulted, events, unlisted bool
		ending                               ending
		want                                 string
	}{
		{name: "a caller waits", blocking: true, want: "kept combined"},
		{name: "the result goes first", blocking: true, resulted: true, want: "kept result completion"},
		{name: "an event is sent", events: true, want: "kept event completion"},
		{name: "both", blocking: true, resulted: true, events: true, want: "kept result event completion"},
		{name: "only the slot is freed", want: "completion"},
		{name: "a message that the journal does not list", blocking: true, unlisted: true, want: "combined"},
		{name: "a blocked namespace", blocking: true, events: true, ending: ending{silent: true}, want: "combined"},
		{name: "an end that the journal has", blocking: true, events: true, ending: ending{repeated: true}, want: "combined"},
	} {
		k := newClerk(c.events)
		p, rec := k.pending(c.blocking)
		p.NotJournaled, c.ending.record = c.unlisted, rec
		if c.resulted {
			k.completer.result(p, rec)
		}
		k.completer.complete(p, c.ending)
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
		tick, rec := k.pending(false)
		tick.NotJournaled = c.unlisted
		k.completer.complete(tick, ending{record: rec, silent: c.blocked})
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
		k.completer.unsettled.keepAll()
		check.Equal(t, len(k.unacknowledged), c.unacknowledged, "%s", c.name)
		check.That(t, (k.done == 1) == (c.sent && c.stored), "%s: %d are unacknowledged, want %d; done %d", c.name, len(k.unacknowledged), c.unacknowledged, k.done)
	}
}

// TestUnacknowledgedIsKeptBeforeTheEnd: while the process works the journal is given the end
// of what waits for its acks for two polls, or for its record for ten, once; and
// again when the record has become whole.
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
		k.completer.complete(tick, ending{record: rec})
		if c.sent {
			k.sent[0](nil)
		}
		if c.stored {
			k.stored[0](nil)
		}
		for range c.polls {
			k.completer.unsettled.keep(k.completer.unsettled.overdue(false))
		}
		check.Equal(t, len(k.unacknowledged), c.unacknowledged, "%s", c.name)
	}
	k := newClerk(false)
	tick, rec := k.pending(false)
	k.completer.answer(tick, ending{record: rec})
	for range pollsForRecord {
		k.completer.unsettled.keep(k.completer.unsettled.overdue(false))
	}
	k.completer.file(tick, ending{record: withLogs(rec, []string{"its last words"})})
	k.completer.unsettled.keep(k.completer.unsettled.overdue(false))
	k.completer.unsettled.keepAll()
	check.Equal(check.Must(t), len(k.unacknowledged), 2)
	check.Lacks(t, k.unacknowledged[0], "last words")
	check.Contains(t, k.unacknowledged[1], "last words")
}

// TestUnacknowledgedEndingIsSentAgain: what an earlier process had an activation end with is what its
// controller and its record get it, success or not, and it does not run.
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
				d.Ended = ofPending(d.Message, nil).record(c.response, times{}, time.Now())
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
