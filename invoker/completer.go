package invoker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/spans"
)

// ending states how a pending activation is completed.
type ending struct {
	record *activation.Record
	whole  bool // one combined ack, for what never reached a container
	silent bool // a blocked namespace: no record, no event, the shortest ack
	former bool // an earlier process failed it, which says nothing of this one
	again  bool // an earlier process had it end so, and sent its event
}

// completer completes pending activations: it writes acks, events and records.
type completer struct {
	ctx            context.Context // ends when flushing is over
	out            Outbox
	records        Records
	journal        Journal
	instance       activation.Instance
	store          StorePolicy
	logErrors      [activation.StatusWhiskError + 1]bool
	unstored       bool // a line for each record that is not kept
	events         bool // user events have a reader
	log            *slog.Logger
	observers      observers
	wall           func() time.Time
	aging          *aging // nil: nothing grows old
	unacknowledged unacknowledged
	release        func(*pending)                // gives the pending activation's place at the feed back
	at             func(time.Duration) time.Time // an instant of the dispatcher's clock
}

// result sends an early result to a caller that waits while logs are still
// being collected (MessagingActiveAck: the result goes before the completion).
func (c *completer) result(p *pending, r *activation.Record) {
	if !p.Blocking {
		return
	}
	if p.take(sendResult) {
		c.ack(p, activation.NewResult(p.TransID, r))
	}
}

// complete sends the one completion of a pending activation, its event and its record. It
// does nothing when the pending activation was answered before.
func (c *completer) complete(p *pending, e ending) {
	if c.answer(p, e) {
		c.file(p, e)
	}
}

// answer does the first half of complete: whoever waits hears how it ended. The
// caller files the pending activation afterwards, when the record is whole.
func (c *completer) answer(p *pending, e ending) bool {
	p.mu.Lock()
	from, ok := p.step(sendCompletion)
	if ok {
		p.ending = e
	}
	p.mu.Unlock()
	if !ok {
		return false
	}
	c.unacknowledged.add(p, e)
	status := e.record.Response.StatusCode
	c.observers.notify(onAnswered{p, status, !e.silent && c.store.keeps(p.Message, e.record.Response)})
	if c.events && !e.silent && !e.again {
		c.event(p, e.record)
	}
	c.ack(p, c.shape(p, e, from == isResulted))
	if c.logErrors[status] {
		c.log.Warn("activation failed", keyTransID, p.TransID.ID(), keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "status", status)
	}
	return true
}

// file stores an answered pending activation's record and lets go of the pending activation, once.
func (c *completer) file(p *pending, e ending) {
	p.mu.Lock()
	_, ok := p.step(sendRecord)
	if ok {
		p.ending = e
	}
	p.mu.Unlock()
	if !ok {
		return
	}
	defer c.release(p)
	defer p.settle()
	c.keep(p, e)
}

// fileAsAnswered files a pending activation whose worker has answered it and did not come
// to write its record.
func (c *completer) fileAsAnswered(p *pending) {
	p.mu.Lock()
	e := p.ending
	p.mu.Unlock()
	c.file(p, e)
}

// keep stores the record unless the store policy has it otherwise.
func (c *completer) keep(p *pending, e ending) {
	switch {
	case e.silent:
	case c.store.keeps(p.Message, e.record.Response):
		c.put(p, e.record)
	case c.unstored:
		c.log.Info("record is not stored", keyTransID, p.TransID.ID(), keyActivation, p.ActivationID, "status", e.record.Response.StatusCode)
	}
}

// shape picks the ack that frees the slot (contract of CommonLoadBalancer): a
// completion after a result or for a caller that does not wait, else both in
// one. What never reached a container is always one combined ack, by id for a
// caller that does not wait.
func (c *completer) shape(p *pending, e ending, resulted bool) activation.Ack {
	failed := e.record.Response.SystemError() && !e.former
	if resulted || (!p.Blocking && !e.whole) {
		return activation.NewCompletion(p.TransID, p.ActivationID, failed, c.sentTo(p))
	}
	ack := activation.NewCombined(p.TransID, e.record, c.sentTo(p))
	ack.SystemError = failed
	if !p.Blocking || e.silent {
		return ack.Shrink()
	}
	return ack
}

// sentTo is the invoker that the controller sent a pending activation's message to: this
// one, unless another passed it on. Its slot is what the acks free.
func (c *completer) sentTo(p *pending) activation.Instance {
	if p.Forwarded != nil {
		return p.Forwarded.Instance
	}
	return c.instance
}

func (c *completer) ack(p *pending, ack activation.Ack) {
	p.loose.Add(1)
	p.unsent.Add(1)
	if c.ctx.Err() != nil {
		return // what comes after the end is not the truth
	}
	err := c.out.Ack(c.ctx, p.Controller, ack, func(err error) {
		if errors.Is(err, ErrUnsent) {
			c.log.Warn("ack not sent, its activation is delivered again after a restart", keyActivation, p.ActivationID, "kind", ack.Kind.String(), "error", err)
			return
		}
		c.observers.notify(onAcked{p, ack.Kind, err})
		if err != nil {
			c.log.Warn("ack not delivered", keyActivation, p.ActivationID, "kind", ack.Kind.String(), "error", err)
		}
		p.unsent.Add(-1)
		p.settle()
	})
	if err != nil { // flushing is over: the message comes again after a restart
		c.log.Error("send ack", keyActivation, p.ActivationID, "error", err)
	}
}

func (c *completer) event(p *pending, r *activation.Record) {
	e, ok := activation.NewEvent(r, c.instance.Topic(), p.User.Namespace.UUID, c.wall().UnixMilli())
	if !ok {
		return
	}
	if err := c.out.Event(c.ctx, e); err != nil {
		c.log.Warn("send user event", keyActivation, p.ActivationID, "error", err)
	}
}

func (c *completer) put(p *pending, r *activation.Record) {
	p.loose.Add(1)
	if c.ctx.Err() != nil {
		return
	}
	err := c.records.Put(spans.With(c.ctx, p.TransID), r.DocumentID(), r.Document(c.wall().UnixMilli()), func(batch int, err error) {
		c.observers.notify(onStored{p, batch, err})
		if err != nil {
			c.log.Error("record refused by the store", keyActivation, p.ActivationID, "error", err)
		}
		p.settle()
	})
	if err != nil {
		c.log.Error("store record", keyActivation, p.ActivationID, "error", err)
	}
}
