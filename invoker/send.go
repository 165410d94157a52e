package invoker

import (
	"errors"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
)

// completion returns the ack that frees the slot at the controller (contract of
// CommonLoadBalancer): the completion alone, or combined with the result. If the caller does
// not wait or the namespace is blocked, the combined ack has only the id of the record.
func (c *completer) completion(p *pending, o delivery.Order) activation.Ack {
	failed := o.End.Record.Response.SystemError() && !o.End.Earlier
	if o.Do == delivery.SendCompletion {
		return activation.NewCompletion(p.TransID, p.ActivationID, failed, *p.sentTo)
	}
	ack := activation.NewCombined(p.TransID, o.End.Record, *p.sentTo)
	ack.SystemError = failed
	if !p.Blocking || o.End.Silent {
		return ack.Shrink()
	}
	return ack
}

// ack sends an ack. After the end of flushing nothing is sent, and the activation is
// delivered again to the next process.
func (c *completer) ack(p *pending, ack activation.Ack) {
	if c.ctx.Err() != nil {
		return
	}
	err := c.outbox.Ack(c.ctx, p.Controller, ack, func(err error) {
		if errors.Is(err, activation.ErrUnsent) {
			c.log.Warn("ack not sent, its activation is delivered again after a restart", keyActivation, p.ActivationID, "kind", ack.Kind.String(), "error", err)
			return
		}
		c.observe.acked(p, ack.Kind, err)
		if err != nil {
			c.log.Warn("ack not delivered", keyActivation, p.ActivationID, "kind", ack.Kind.String(), "error", err)
		}
		c.take(p, delivery.Event{Kind: delivery.Acked})
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
	if err := c.outbox.Event(c.ctx, e); err != nil {
		c.log.Warn("send user event", keyActivation, p.ActivationID, "error", err)
	}
}

// put stores a record. From then on the queue of the database has the log lines, and
// bounds their memory.
func (c *completer) put(p *pending, e delivery.End) {
	if c.ctx.Err() != nil {
		return
	}
	if e.Document == nil {
		e.Document = e.Record.Document(c.wall().UnixMilli())
	}
	err := c.records.Put(c.ctx, e.Record.DocumentID(), e.Document, func(batch int, err error) {
		c.observe.stored(p, batch, err)
		if err != nil {
			c.log.Error("record refused by the store", keyActivation, p.ActivationID, "error", err)
		}
		c.take(p, delivery.Event{Kind: delivery.Stored})
	})
	if err != nil {
		c.log.Error("store record", keyActivation, p.ActivationID, "error", err)
	}
}

// Outcome reports how an activation ended, or that another invoker has it.
type Outcome struct {
	ID    activation.ID
	Pin   Pin
	Took  time.Duration // by its record; on a GPU without /init
	Ran   bool          // false: it reached no container here
	Keeps bool          // its container can be used again
}

// report logs how an activation ended, and notifies scheduler mode. Without a record another
// invoker has the activation, or an earlier process completed it.
func (c *completer) report(p *pending, e delivery.End) {
	if r := e.Record; r != nil {
		status := r.Response.StatusCode
		if c.logErrors[status] {
			c.log.Warn("activation failed", keyTransID, p.TransID.ID(), keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "status", status)
		}
		if c.unstored && !e.Store && !e.Silent {
			c.log.Info("record is not stored", keyTransID, p.TransID.ID(), keyActivation, p.ActivationID, "status", status)
		}
	}
	if c.notify != nil {
		c.notify.Notify(outcomeOf(p, e))
	}
}

func outcomeOf(p *pending, e delivery.End) Outcome {
	end := Outcome{ID: p.ActivationID, Pin: p.Pin, Keeps: true}
	if r := e.Record; r != nil {
		end.Keeps = r.Response.StatusCode < activation.StatusDeveloperError
		end.Ran = !e.Combined
		if r.Duration != nil {
			end.Took = time.Duration(*r.Duration) * time.Millisecond
			if init, ok := r.Annotations.Number("initTime"); ok && p.gpu != nil {
				end.Took -= time.Duration(init) * time.Millisecond
			}
		}
	}
	return end
}
