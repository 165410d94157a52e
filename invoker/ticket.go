package invoker

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// ticket stands for one accepted activation. Exactly one completion leaves it,
// whatever fails: complete works once, and whoever holds a ticket either hands
// it on or completes it (see Invoker.guard). An early result may go before.
//
// The message is done at the feed when everything that left the ticket is
// safe: each ack at the broker, the record in the store. The count of what is
// still loose starts at one, for the completion itself.
type ticket struct {
	*activation.Message
	offset   int64
	accepted time.Duration
	done     func()
	desk     *desk

	resulted  atomic.Bool
	completed atomic.Bool
	answered  *ending // by answer, for its worker; nil until then
	filed     atomic.Bool
	loose     atomic.Int32
	begin     func() // nil: nobody asks
}

func newTicket(d *desk, del Delivery, now time.Duration) *ticket {
	t := &ticket{Message: del.Message, offset: del.Offset, accepted: now, done: del.Done, desk: d}
	t.loose.Store(1)
	t.begin = del.Begin
	return t
}

// started tells the feed and the journal that the activation begins to run.
func (t *ticket) started() {
	t.desk.journal.Started(t.ActivationID)
	if t.begin != nil {
		t.begin()
	}
}

// settle takes one loose thing off; after the last one the feed may forget the
// message.
func (t *ticket) settle() {
	if t.loose.Add(-1) == 0 {
		t.desk.journal.Completed(t.ActivationID)
		t.done()
	}
}

// ending says how a ticket is completed.
type ending struct {
	record *activation.Record
	whole  bool // one combined ack, for what never reached a container
	silent bool // a blocked namespace: no record, no event, the shortest ack
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
	metrics   *Metrics
	log       *slog.Logger
	wall      func() time.Time
	release   func() // gives the ticket's place at the feed back
}

// result sends an early result to a caller that waits while logs are still
// being collected (MessagingActiveAck: the result goes before the completion).
func (d *desk) result(t *ticket, r *activation.Record) {
	if !t.Blocking || !t.resulted.CompareAndSwap(false, true) {
		return
	}
	d.ack(t, activation.NewResult(t.TransID, r))
}

// complete sends the one completion of a ticket, its event and its record. It
// does nothing when the ticket was completed before.
func (d *desk) complete(t *ticket, e ending) {
	if !t.completed.CompareAndSwap(false, true) {
		return
	}
	defer d.file(t, e)
	d.send(t, e)
}

// answer does the first half of complete: whoever waits hears how it ended. The
// caller files the ticket afterwards, when the record is whole.
func (d *desk) answer(t *ticket, e ending) {
	if !t.completed.CompareAndSwap(false, true) {
		return
	}
	t.answered = &e
	d.send(t, e)
}

// send sends a ticket's completion and its event.
func (d *desk) send(t *ticket, e ending) {
	if !e.silent {
		d.event(t, e.record)
	}
	d.ack(t, d.shape(t, e))
	d.metrics.completed(e.record.Response.StatusCode)
	if status := e.record.Response.StatusCode; d.logErrors[status] {
		d.log.Warn("activation failed", keyTransID, t.TransID.ID(), keyActivation, t.ActivationID, keyAction, t.Action.FQN(), "status", status)
	}
}

// file stores a completed ticket's record and lets go of the ticket, once.
func (d *desk) file(t *ticket, e ending) {
	if t.filed.Swap(true) {
		return
	}
	defer d.release()
	defer t.settle()
	d.keep(t, e)
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
func (d *desk) shape(t *ticket, e ending) activation.Ack {
	if t.resulted.Load() || (!t.Blocking && !e.whole) {
		return activation.NewCompletion(t.TransID, t.ActivationID, e.record.Response.SystemError(), d.instance)
	}
	ack := activation.NewCombined(t.TransID, e.record, d.instance)
	if !t.Blocking || e.silent {
		return ack.Shrink()
	}
	return ack
}

func (d *desk) ack(t *ticket, ack activation.Ack) {
	t.loose.Add(1)
	err := d.out.Ack(d.ctx, t.Controller, ack, func(err error) {
		d.metrics.acked(ack.Kind, err)
		if err != nil {
			d.log.Warn("ack not delivered", keyActivation, t.ActivationID, "kind", ack.Kind.String(), "error", err)
		}
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
	err := d.records.Put(d.ctx, r.DocumentID(), r.Document(d.wall().UnixMilli()), func(err error) {
		d.metrics.stored(err)
		if err != nil {
			d.log.Error("record refused by the store", keyActivation, t.ActivationID, "error", err)
		}
		t.settle()
	})
	if err != nil {
		d.log.Error("store record", keyActivation, t.ActivationID, "error", err)
	}
}
