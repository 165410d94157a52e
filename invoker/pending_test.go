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
)

// clerk is a completer whose broker, store and journal do nothing until the test has
// them.
type clerk struct {
	completer      *completer
	acks           []activation.Ack
	sent           []func(error)
	docs           int
	stored         []func(error)
	noAcks         error // what the broker refuses with, and the store
	noPuts         error
	events         int
	journal        int // activations that were reported complete
	unacknowledged []string
	order          []string // of the calls
	done           int
}

// taken are the permits of a clerk's pending activations.
const taken = 8

// released is how many of them were given back.
func (c *clerk) released() int { return -int(c.completer.permits.taken.Load()) }

// newClerk is one that sends events, or not.
func newClerk(events bool) *clerk {
	c := &clerk{}
	c.completer = &completer{
		ctx: context.Background(), events: events, out: c, records: c, journal: c,
		log: slog.New(slog.DiscardHandler), observe: newTestObserver(),
		wall: func() time.Time { return time.UnixMilli(epoch) }, permits: newPermits(taken, 0),
	}
	c.completer.unsettled = &unsettled{journal: c, events: events, log: c.completer.log, wall: c.completer.wall, ends: map[*pending]bool{}}
	for range taken {
		c.completer.permits.common <- struct{}{}
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

func (c *clerk) Begin(context.Context, activation.ID) error { return nil }
func (c *clerk) Completed(activation.ID)                    { c.journal++ }
func (c *clerk) KeepUnacknowledged(ids []activation.ID, records [][]byte) []error {
	c.order = append(c.order, "kept")
	for _, record := range records {
		c.unacknowledged = append(c.unacknowledged, string(record))
	}
	return make([]error, len(ids))
}

// pending activation is a fresh one, and the record of its end.
func (c *clerk) pending(blocking bool) (*pending, *activation.Record) {
	m := message()
	m.Blocking = blocking
	p := newPending(c.completer, Delivery{Message: m, Done: func() { c.done++ }}, 0)
	return p, ofPending(m, acted()).record(activation.Response{}, times{}, at(1))
}

// Completing a pending activation a second time does nothing.
func TestPendingIsCompletedOnce(t *testing.T) {
	c := newClerk(true)
	p, rec := c.pending(true)
	for range 3 {
		c.completer.complete(p, ending{record: rec})
		c.completer.result(p, rec)
	}
	c.completer.complete(p, ending{record: rec, combined: true})
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
			c.completer.result(p, rec)
			c.completer.complete(p, ending{record: rec})
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

// What the broker or the store did not take any more is not done: it comes
// again after a restart.
func TestMessageIsNotDoneAfterTheEnd(t *testing.T) {
	closed := errors.New("closed")
	for _, no := range [][2]error{{closed, nil}, {nil, closed}, {closed, closed}} {
		c := newClerk(true)
		c.noAcks, c.noPuts = no[0], no[1]
		p, rec := c.pending(true)
		c.completer.complete(p, ending{record: rec})
		for _, settle := range append(slices.Clone(c.sent), c.stored...) {
			settle(nil)
		}
		check.Equal(t, c.done, 0, "%v: done", no)
		check.Equal(t, c.journal, 0, "%v: done", no)
		check.Equal(t, c.released(), 1, "%v: done", no)
	}
}

// Nothing is sent after the end: what a cancelled piece of work reports of its
// activation would contradict the process that runs it next.
func TestNothingLeavesAfterTheEnd(t *testing.T) {
	c := newClerk(true)
	ended, end := context.WithCancel(context.Background())
	end()
	c.completer.ctx = ended
	p, rec := c.pending(true)
	c.completer.result(p, rec)
	c.completer.complete(p, ending{record: rec})
	check.Equal(t, len(c.acks), 0)
	check.AtMost(t, c.docs, 0)
	check.AtMost(t, c.done, 0)
	check.AtMost(t, c.journal, 0)
	check.Equal(t, c.released(), 1)
}

// An ack that was still waiting when the outbox closed is unacknowledged: the activation is
// not done, whatever else became of it, and is delivered again.
func TestAckThatWasNotSentIsKept(t *testing.T) {
	for unsent := range 2 {
		c := newClerk(true)
		p, rec := c.pending(true)
		c.completer.result(p, rec)
		c.completer.complete(p, ending{record: rec})
		for i, sent := range c.sent {
			if i == unsent {
				sent(fmt.Errorf("%w: closed", ErrUnsent))
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
		c.completer.unsettled.keepAll()
		check.Equal(check.Must(t), len(c.unacknowledged), 1, "without ack %d", unsent)
		check.Equal(t, c.unacknowledged[0], string(rec.Document(epoch)), "without ack %d", unsent)
	}
}

// What never reached a container is answered by one combined ack, which holds
// the record only for a caller that waits, in a namespace that is not blocked.
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
		got := k.completer.shape(p, ending{record: rec, combined: c.combined, silent: c.silent}, c.resulted)
		check.Equal(t, got.Kind, c.kind, "%+v", c)
		check.That(t, (got.Record != nil) == c.record, "%+v: got %s, with a record: %t", c, got.Kind, got.Record != nil)
		check.Equal(t, got.ActivationID, p.ActivationID, "%+v", c)
	}
}
