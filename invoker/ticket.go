package invoker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/steps"
	"github.com/gpuwhisk/gpuwhisk/invoker/explain"
)

// ticket stands for one accepted activation. Exactly one completion leaves it,
// whatever fails: its stage allows each thing once (see moves), and whoever
// holds a ticket either hands it on or completes it (see Invoker.guard). An
// early result may go before.
//
// The message is done at the feed when everything that left the ticket is
// safe: each ack at the broker, the record in the store. The count of what is
// still loose starts at one, for the completion itself.
type ticket struct {
	*activation.Message
	offset   int64
	accepted time.Duration
	begin    func() // nil: nobody asks
	begun    bool   // in an earlier process, which did not end it
	attempts int    // processes that died while it ran
	done     func()
	unlisted bool // the journal keeps nothing of it
	desk     *desk
	account  *explain.Account // nil where none is kept
	place    claim
	age      aged // guarded by desk.old
	loose    atomic.Int32
	unsent   atomic.Int32 // acks among what is loose
	gone     atomic.Bool  // the feed has let go of it

	mu     sync.Mutex
	stage  stage
	ending ending // from isAnswered on
}

// stage is how far a ticket has come.
type stage uint8

const (
	nowhere    stage = iota // where a move that is not allowed leads
	isAccepted              // nothing has left it
	isResulted              // who waits has the result
	isAnswered              // controllers know how it ended and that its slot is free
	isFiled                 // the record is handed on and the place at the feed given back: the end
	isPassing               // it is on its way to another invoker
	isPassed                // another invoker has it and answers: the end
	isParked                // the shelf has it, and a new ticket follows: the end
)

// move is what may happen to a ticket.
type move uint8

const (
	sendResult     move = iota // to a caller that waits
	sendCompletion             // to the controller
	sendRecord                 // hand the record on, give the place back
	sendOn                     // to another invoker
	sentOn                     // the broker has it for the other invoker
	sentBack                   // the broker will not have it
	setAside                   // the shelf has the message
	nMoves
)

// moves is where each move leads from each stage. What is not here does
// nothing: that is how an activation is completed once, whoever tries.
var moves = [...][nMoves]stage{
	isAccepted: {sendResult: isResulted, sendCompletion: isAnswered, sendOn: isPassing, setAside: isParked},
	isResulted: {sendCompletion: isAnswered},
	isAnswered: {sendRecord: isFiled},
	isFiled:    {},
	isPassing:  {sentOn: isPassed, sentBack: isAccepted},
	isPassed:   {},
	isParked:   {},
}

// take makes a move, and tells whether it was allowed.
func (t *ticket) take(m move) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.step(m)
	return ok
}

// step is take for who holds the lock; it tells from where the move went.
func (t *ticket) step(m move) (from stage, ok bool) {
	from = t.stage
	to := moves[from][m]
	if to == nowhere {
		return from, false
	}
	t.stage = to
	return from, true
}

// open tells whether nothing has left the ticket.
func (t *ticket) open() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stage == isAccepted
}

// filed tells whether the ticket has come to its end here.
func (t *ticket) filed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stage == isFiled
}

func newTicket(d *desk, del Delivery, now time.Duration) *ticket {
	t := &ticket{
		Message: del.Message, offset: del.Offset, accepted: now, begin: del.Begin, done: del.Done,
		begun: del.Begun, attempts: del.Attempts, unlisted: del.Unlisted, desk: d, stage: isAccepted,
	}
	t.loose.Store(1)
	d.open(t)
	return t
}

// started tells the feed and the journal that the activation begins to run. With
// an error it must not: ctx has ended.
func (t *ticket) started(ctx context.Context) error {
	if !t.unlisted {
		if err := t.desk.journal.Begin(ctx, t.ActivationID); err != nil {
			return err
		}
	}
	if t.begin != nil {
		t.begin()
	}
	return nil
}

// settle takes one loose thing off; after the last one the feed may forget the
// message.
func (t *ticket) settle() {
	if t.loose.Add(-1) == 0 {
		t.desk.owed.remove(t)
		t.desk.shut(t)
		if !t.unlisted {
			t.desk.journal.Completed(t.ActivationID)
		}
		t.desk.old.remove(t)
		t.letGo()
	}
}

// letGo has the feed forget the message, once.
func (t *ticket) letGo() {
	if !t.gone.Swap(true) {
		t.done()
	}
}

// ending says how a ticket is completed.
type ending struct {
	record *activation.Record
	whole  bool // one combined ack, for what never reached a container
	silent bool // a blocked namespace: no record, no event, the shortest ack
	former bool // an earlier process failed it, which says nothing of this one
	again  bool // an earlier process had it end so, and sent its event
}

// desk completes tickets: it writes acks, events and records.
type desk struct {
	ctx       context.Context // ends when flushing is over
	out       Outbox
	records   Records
	journal   Journal
	instance  activation.Instance
	store     StorePolicy
	logErrors [activation.StatusWhiskError + 1]bool
	unstored  bool // a line for each record that is not kept
	events    bool // somebody reads user events
	metrics   *Metrics
	log       *slog.Logger
	marks     *marks
	wall      func() time.Time
	old       *old // nil: nothing grows old
	owed      owed
	release   func(*ticket) // gives the ticket's place at the feed back
	explain   *explain.Log
	tracer    Tracer                        // nil: nobody asks
	at        func(time.Duration) time.Time // an instant of the dispatcher's clock
}

// result sends an early result to a caller that waits while logs are still
// being collected (MessagingActiveAck: the result goes before the completion).
func (d *desk) result(t *ticket, r *activation.Record) {
	if !t.Blocking {
		return
	}
	if t.take(sendResult) {
		d.ack(t, activation.NewResult(t.TransID, r))
	}
}

// complete sends the one completion of a ticket, its event and its record. It
// does nothing when the ticket was answered before.
func (d *desk) complete(t *ticket, e ending) {
	if d.answer(t, e) {
		d.file(t, e)
	}
}

// answer does the first half of complete: whoever waits hears how it ended. The
// caller files the ticket afterwards, when the record is whole.
func (d *desk) answer(t *ticket, e ending) bool {
	t.mu.Lock()
	from, ok := t.step(sendCompletion)
	if ok {
		t.ending = e
	}
	t.mu.Unlock()
	if !ok {
		return false
	}
	d.owed.add(t, e)
	d.answered(t, e)
	if d.events && !e.silent && !e.again {
		d.event(t, e.record)
	}
	d.ack(t, d.shape(t, e, from == isResulted))
	d.metrics.completed(e.record.Response.StatusCode)
	if status := e.record.Response.StatusCode; d.logErrors[status] {
		d.log.Warn("activation failed", keyTransID, t.TransID.ID(), keyActivation, t.ActivationID, keyAction, t.Action.FQN(), "status", status)
	}
	return true
}

// file stores an answered ticket's record and lets go of the ticket, once.
func (d *desk) file(t *ticket, e ending) {
	t.mu.Lock()
	_, ok := t.step(sendRecord)
	if ok {
		t.ending = e
	}
	t.mu.Unlock()
	if !ok {
		return
	}
	defer d.release(t)
	defer t.settle()
	d.keep(t, e)
}

// fileAsAnswered files a ticket whose worker has answered it and did not come
// to write its record.
func (d *desk) fileAsAnswered(t *ticket) {
	t.mu.Lock()
	e := t.ending
	t.mu.Unlock()
	d.file(t, e)
}

// keep stores the record unless the store policy has it otherwise.
func (d *desk) keep(t *ticket, e ending) {
	switch {
	case e.silent:
	case d.store.keeps(t.Message, e.record.Response):
		d.put(t, e.record)
	case d.unstored:
		d.log.Info("record is not stored", keyTransID, t.TransID.ID(), keyActivation, t.ActivationID, "status", e.record.Response.StatusCode)
	}
}

// shape picks the ack that frees the slot (contract of CommonLoadBalancer): a
// completion after a result or for a caller that does not wait, else both in
// one. What never reached a container is always one combined ack, by id for a
// caller that does not wait.
func (d *desk) shape(t *ticket, e ending, resulted bool) activation.Ack {
	failed := e.record.Response.SystemError() && !e.former
	if resulted || (!t.Blocking && !e.whole) {
		return activation.NewCompletion(t.TransID, t.ActivationID, failed, d.sentTo(t))
	}
	ack := activation.NewCombined(t.TransID, e.record, d.sentTo(t))
	ack.SystemError = failed
	if !t.Blocking || e.silent {
		return ack.Shrink()
	}
	return ack
}

// sentTo is the invoker that the controller sent a ticket's message to: this
// one, unless another passed it on. Its slot is what the acks free.
func (d *desk) sentTo(t *ticket) activation.Instance {
	if t.Forwarded != nil {
		return t.Forwarded.Instance
	}
	return d.instance
}

func (d *desk) ack(t *ticket, ack activation.Ack) {
	t.loose.Add(1)
	t.unsent.Add(1)
	if d.ctx.Err() != nil {
		return // what comes after the end is not the truth
	}
	err := d.out.Ack(d.ctx, t.Controller, ack, func(err error) {
		if errors.Is(err, ErrUnsent) {
			d.log.Warn("ack not sent, its activation is delivered again after a restart", keyActivation, t.ActivationID, "kind", ack.Kind.String(), "error", err)
			return
		}
		d.metrics.acked(ack.Kind, err)
		d.acked(t, ack.Kind)
		if err != nil {
			d.log.Warn("ack not delivered", keyActivation, t.ActivationID, "kind", ack.Kind.String(), "error", err)
		} else {
			d.marks.posted(t, ack.Kind)
		}
		t.unsent.Add(-1)
		t.settle()
	})
	if err != nil { // flushing is over: the message comes again after a restart
		d.log.Error("send ack", keyActivation, t.ActivationID, "error", err)
	}
}

func (d *desk) event(t *ticket, r *activation.Record) {
	e, ok := activation.NewEvent(r, d.instance.Topic(), t.User.Namespace.UUID, d.wall().UnixMilli())
	if !ok {
		return
	}
	if err := d.out.Event(d.ctx, e); err != nil {
		d.log.Warn("send user event", keyActivation, t.ActivationID, "error", err)
	}
}

func (d *desk) put(t *ticket, r *activation.Record) {
	t.loose.Add(1)
	if d.ctx.Err() != nil {
		return
	}
	err := d.records.Put(steps.With(d.ctx, t.TransID), r.DocumentID(), r.Document(d.wall().UnixMilli()), func(batch int, err error) {
		d.metrics.stored(err)
		d.stored(t, batch, err)
		if err != nil {
			d.log.Error("record refused by the store", keyActivation, t.ActivationID, "error", err)
		}
		t.settle()
	})
	if err != nil {
		d.log.Error("store record", keyActivation, t.ActivationID, "error", err)
	}
}
