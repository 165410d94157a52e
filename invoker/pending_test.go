package invoker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
)

// clerk is a completer whose broker, store and journal do nothing until the test has
// them.
type clerk struct {
	completer      *completer
	acks           []activation.Ack
	sent           []func(error)
	docs           int
	stored         []func(error)
	noAcks         error // the broker's refusal
	noPuts         error
	events         int
	journal        int // activations that were reported complete
	unacknowledged []string
	order          []string // of the calls
	done           int
	away           bool // the journal's disk
	accepted       int
	now            time.Duration
}

// taken are the permits of a clerk's pending activations.
const taken = 8

// released returns how many permits were given back.
func (c *clerk) released() int { return c.accepted - c.completer.unfinished() }

// tick lets the time between two ticks of the table pass, and has one.
func (c *clerk) tick() {
	c.now += delivery.TickTime
	c.completer.tick()
}

// newClerk returns a clerk that sends events, or not.
func newClerk(events bool) *clerk {
	c := &clerk{}
	c.completer = &completer{
		ctx: context.Background(), outbox: c, records: c, journal: c,
		log: slog.New(slog.DiscardHandler), observe: newTestObserver(),
		wall: func() time.Time { return time.UnixMilli(epoch) }, clock: func() time.Duration { return c.now },
		freed: make(chan struct{}, 1), table: delivery.New(delivery.Config{InFlight: taken, Events: events}),
	}
	return c
}

func (c *clerk) Ack(_ context.Context, _ string, ack activation.Ack, sent func(error)) error {
	if c.noAcks != nil {
		return c.noAcks
	}
	c.acks, c.sent, c.order = append(c.acks, ack), append(c.sent, sent), append(c.order, ack.Kind.String())
	return nil
}

func (c *clerk) Event(context.Context, activation.Event) error {
	c.events, c.order = c.events+1, append(c.order, "event")
	return nil
}

func (c *clerk) Forward(context.Context, int, []byte, func(error)) error { return nil }

func (c *clerk) Put(_ context.Context, _ string, _ []byte, stored func(batch int, err error)) error {
	if c.noPuts != nil {
		return c.noPuts
	}
	c.docs, c.stored = c.docs+1, append(c.stored, func(err error) { stored(1, err) })
	return nil
}

func (c *clerk) Begin(context.Context, activation.ID, int) (bool, error) {
	c.order = append(c.order, "begun")
	return !c.away, nil
}
func (c *clerk) BeginHandback(activation.ID) error  { return nil }
func (c *clerk) AbortHandback(activation.ID)        {}
func (c *clerk) CommitHandback(activation.ID) error { return nil }
func (c *clerk) AppendFetched(activation.ID, []byte) (delivery.History, bool, error) {
	return delivery.History{}, true, nil
}
func (c *clerk) Completed(activation.ID) { c.journal++ }
func (c *clerk) KeepUnacknowledged(ids []activation.ID, records [][]byte) []error {
	c.order = append(c.order, "kept")
	for _, record := range records {
		c.unacknowledged = append(c.unacknowledged, string(record))
	}
	return make([]error, len(ids))
}

// pending activation is a fresh one, and the record of its end.
func (c *clerk) pending(blocking bool) (*pending, *activation.Record) {
	return c.pendingOf(Delivery{}, blocking)
}

func (c *clerk) pendingOf(d Delivery, blocking bool) (*pending, *activation.Record) {
	m := message()
	m.Blocking = blocking
	d.Message, d.Done = m, func() { c.done++ }
	c.completer.reserve(context.Background())
	c.accepted++
	return c.completer.accept(d), ofPending(m, acted()).record(activation.Response{}, at(1))
}

// result reports the result of an activation whose logs are still being read.
func (c *clerk) result(p *pending, rec *activation.Record) {
	c.completer.take(p, delivery.Event{Kind: delivery.Resulted, End: delivery.End{Record: rec, Store: true}})
}

// TestStartIsLogged checks that the journal has the start of a run, and Kafka's commit has it
// only without a journal or if the journal cannot write it.
func TestStartIsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		away, none bool
		want       []string
	}{
		"in the journal":    {want: []string{"begun"}},
		"disk is away":      {away: true, want: []string{"begun", "marks 5 3"}},
		"without a journal": {none: true, want: []string{"marks 5 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			clerk := newClerk(false)
			if clerk.away = c.away; c.none {
				clerk.completer.journal = nil
			}
			p, _ := clerk.pendingOf(Delivery{History: delivery.Marked(3), Commit: func(killed, stopped delivery.Mark) {
				clerk.order = append(clerk.order, fmt.Sprint("marks ", killed, stopped))
			}}, false)
			for range 2 {
				check.NoError(t, clerk.completer.begin(t.Context(), p))
			}
			check.DeepEqual(t, clerk.order, c.want)
		})
	}
}

// Completing a pending activation a second time does nothing.
func TestPendingIsCompletedOnce(t *testing.T) {
	c := newClerk(true)
	p, rec := c.pending(true)
	for range 3 {
		c.completer.end(p, ending{End: delivery.End{Record: rec}})
		c.result(p, rec)
	}
	c.completer.end(p, ending{End: delivery.End{Record: rec, Combined: true}})
	free := slices.DeleteFunc(slices.Clone(c.acks), func(a activation.Ack) bool { return !a.FreesSlot() })
	check.Equal(t, len(free), 1, "acks free the slot")
	check.Equal(t, c.docs, 1)
	check.Equal(t, c.events, 1)
	check.Equal(t, c.released(), 1)
}

// A message is done when everything that left its pending activation is safe, in whatever
// order it gets there, and not before.
func TestMessageIsDoneLast(t *testing.T) {
	broken := errors.New("refused for good")
	for _, answer := range []error{nil, broken} {
		for last := range 3 {
			c := newClerk(true)
			p, rec := c.pending(true)
			c.result(p, rec)
			c.completer.end(p, ending{End: delivery.End{Record: rec}})
			loose := append(slices.Clone(c.sent), c.stored...)
			check.Equal(check.Must(t), len(loose), 3, "things were sent")
			loose[last], loose[2] = loose[2], loose[last]
			for i, settle := range loose {
				check.Equal(check.Must(t), c.done, 0, "done with %d things loose", len(loose)-i)
				check.Equal(check.Must(t), c.journal, 0, "done with %d things loose", len(loose)-i)
				settle(answer)
			}
			check.Equal(t, c.done, 1)
			check.Equal(t, c.journal, 1)
		}
	}
}

// A message whose ack or record was refused at the end is not done: it comes again after a
// restart.
func TestMessageIsNotDoneAfterTheEnd(t *testing.T) {
	closed := errors.New("closed")
	for _, no := range [][2]error{{closed, nil}, {nil, closed}, {closed, closed}} {
		c := newClerk(true)
		c.noAcks, c.noPuts = no[0], no[1]
		p, rec := c.pending(true)
		c.completer.end(p, ending{End: delivery.End{Record: rec}})
		for _, settle := range append(slices.Clone(c.sent), c.stored...) {
			settle(nil)
		}
		check.Equal(t, c.done, 0, "%v: done", no)
		check.Equal(t, c.journal, 0, "%v: done", no)
		check.Equal(t, c.released(), 1, "%v: done", no)
	}
}

// Nothing is sent after the end: the reports of cancelled work would contradict the process
// that runs the activation next.
func TestNothingLeavesAfterTheEnd(t *testing.T) {
	c := newClerk(true)
	ended, end := context.WithCancel(context.Background())
	end()
	c.completer.ctx = ended
	p, rec := c.pending(true)
	c.result(p, rec)
	c.completer.end(p, ending{End: delivery.End{Record: rec}})
	check.Equal(t, len(c.acks), 0)
	check.AtMost(t, c.docs, 0)
	check.AtMost(t, c.done, 0)
	check.AtMost(t, c.journal, 0)
	check.Equal(t, c.released(), 1)
}

// If an ack was still waiting when the outbox closed, the activation is not done and is
// delivered again.
func TestAckThatWasNotSentIsKept(t *testing.T) {
	for unsent := range 2 {
		c := newClerk(true)
		p, rec := c.pending(true)
		c.result(p, rec)
		c.completer.end(p, ending{End: delivery.End{Record: rec}})
		for i, sent := range c.sent {
			if i == unsent {
				sent(fmt.Errorf("%w: closed", activation.ErrUnsent))
				continue
			}
			sent(nil)
		}
		for _, stored := range c.stored {
			stored(nil)
		}
		check.Equal(t, c.done, 0, "without ack %d: done", unsent)
		check.Equal(t, c.journal, 0, "without ack %d: done", unsent)
		c.unacknowledged = nil
		c.completer.stop()
		check.Equal(check.Must(t), len(c.unacknowledged), 1, "without ack %d", unsent)
		check.Equal(t, c.unacknowledged[0], string(rec.Document(epoch)), "without ack %d", unsent)
	}
}

// An activation that never reached a container is answered by one combined ack. The ack
// holds the record only for a caller that waits, in a namespace that is not blocked.
func TestShapeOfAcks(t *testing.T) {
	for _, c := range []struct {
		blocking, resulted, combined, silent bool
		kind                                 activation.AckKind
		record                               bool
	}{
		{blocking: true, kind: activation.Combined, record: true},
		{blocking: true, resulted: true, kind: activation.Completion},
		{blocking: true, combined: true, kind: activation.Combined, record: true},
		{blocking: true, combined: true, silent: true, kind: activation.Combined},
		{kind: activation.Completion},
		{combined: true, kind: activation.Combined},
		{combined: true, silent: true, kind: activation.Combined},
	} {
		k := newClerk(true)
		p, rec := k.pending(c.blocking)
		if c.resulted {
			k.result(p, rec)
		}
		k.completer.end(p, ending{End: delivery.End{Record: rec, Combined: c.combined, Silent: c.silent}})
		got := k.acks[len(k.acks)-1]
		check.Equal(t, got.Kind, c.kind, "%+v", c)
		check.That(t, (got.Record != nil) == c.record, "%+v: got %s, with a record: %t", c, got.Kind, got.Record != nil)
		check.Equal(t, got.ActivationID, p.ActivationID, "%+v", c)
	}
}
