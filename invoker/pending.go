package invoker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
)

// pending is one accepted activation until its end. Exactly one completion is
// sent for it, whatever fails: its stage allows each thing once (see moves), and
// the code that has a pending activation either passes it on or completes it (see
// completer.rescue). An early result may be sent before.
//
// The feed may forget the message when everything that was sent for it is safe:
// each ack at the broker, the record in the store.
type pending struct {
	Delivery
	completer *completer
	trace     *explain.Trace
	accepted  time.Duration
	permit    permit

	// completer.unsettled guards these.
	polls uint8 // of its end
	kept  stage // at which the journal was given that; nowhere: it was not

	// Known when it is routed, and fixed from then on.
	action  *activation.Action // nil: it could not be fetched, or the caller's limits exclude it
	key     string             // containers are shared among equal keys
	bounds  activation.Bounds
	content json.RawMessage
	collect bool                   // logs are read before the completion
	gpu     *activation.GPURequest // nil: the CPU path

	// Of its wait for a container or a token. The dispatcher owns these.
	invocation uint64 // its number in the cores
	queued     time.Duration
	withdrawn  bool          // it is to be given back
	keep       bool          // and was not taken
	left       bool          // to the next process: it cannot start before the stop's deadline
	fallback   string        // why its memory is only counted, where the action lets it be moved
	came       arrivalCounts // for its trace
	obstacle   *obstacle     // what made it wait when it came; nil: nothing

	// outstanding counts what is not safe yet: acks, the record, and the completion
	// as a whole.
	outstanding atomic.Int32
	unsent      atomic.Int32 // acks among them
	stored      bool         // its record is to be stored; known when it is answered

	mu     sync.Mutex
	stage  stage
	ending ending // from isResulted on
}

// stage is how far a pending activation has come.
type stage uint8

const (
	nowhere    stage = iota // where a move that is not allowed leads
	isAccepted              // nothing was sent for it
	isResulted              // a waiting caller has the result
	isAnswered              // controllers know how it ended and that its slot is free
	isFiled                 // the record is handed on and the permit released: the end
	isPassing               // it is being forwarded, or given back to the queue that it came from
	isPassed                // another invoker or that queue has it: the end
)

// move is what may happen to a pending activation.
type move uint8

const (
	sendResult     move = iota // to a caller that waits
	sendCompletion             // to the controller
	sendRecord                 // hand the record on, release the permit
	startPass                  // to another invoker, or back to its queue
	endPass                    // that has it
	failPass                   // it does not take it
	nMoves
)

// moves is where each move leads from each stage. What is not here does
// nothing: that is how an activation is completed once, however often it is tried.
var moves = [...][nMoves]stage{
	isAccepted: {sendResult: isResulted, sendCompletion: isAnswered, startPass: isPassing},
	isResulted: {sendCompletion: isAnswered},
	isAnswered: {sendRecord: isFiled},
	isFiled:    {},
	isPassing:  {endPass: isPassed, failPass: isAccepted},
	isPassed:   {},
}

// take makes a move, and reports whether it was allowed.
func (p *pending) take(m move) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.step(m)
	return ok
}

// step is take for callers that hold the lock; it returns from where the move went.
func (p *pending) step(m move) (from stage, ok bool) {
	from = p.stage
	to := moves[from][m]
	if to == nowhere {
		return from, false
	}
	p.stage = to
	return from, true
}

// end is take for a move that reports how the activation ends.
func (p *pending) end(m move, e ending) (from stage, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from, ok = p.step(m); ok {
		p.ending = e
	}
	return from, ok
}

// at reports whether the pending activation is at a stage.
func (p *pending) at(s stage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage == s
}

func newPending(c *completer, d Delivery, now time.Duration) *pending {
	p := &pending{Delivery: d, completer: c, trace: &explain.Trace{}, accepted: now, stage: isAccepted}
	p.outstanding.Store(1)
	return p
}

// pendingBytes is about how much memory an activation takes that waits for a GPU, its
// parameters left out: 3.9 kB by BenchmarkBacklog.
const pendingBytes = 4 << 10

// size is about how much memory a pending activation takes while it waits.
func (p *pending) size() int64 { return pendingBytes + int64(len(p.Content)) }

// started reports to the feed and the journal that the activation begins to run.
// With an error it must not run: ctx has ended.
func (p *pending) started(ctx context.Context) error {
	if !p.NotJournaled {
		if err := p.completer.journal.Begin(ctx, p.ActivationID); err != nil {
			return err
		}
	}
	if p.Begin != nil {
		p.Begin()
	}
	return nil
}

// ended gives what a pending activation ended with, and how far it has come since.
func (p *pending) ended() (stage, ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage, p.ending
}

// settle takes one outstanding thing off; after the last one the feed may forget
// the message.
func (p *pending) settle() {
	if p.outstanding.Add(-1) == 0 {
		p.completer.unsettled.settled(p)
		p.completer.observe.settled(p)
		if !p.NotJournaled {
			p.completer.journal.Completed(p.ActivationID)
		}
		p.Done()
	}
}

// ending states how a pending activation ends.
type ending struct {
	record   *activation.Record  // nil: it never reached a container, and is made of
	response activation.Response // this
	cause    string              // for traces, where response has text of a user's; else empty
	combined bool                // one combined ack in any case, for what never reached a container
	silent   bool                // a blocked namespace: no record, no event, the shortest ack
	earlier  bool                // an earlier process failed it: no reason to avoid this one
	repeated bool                // an earlier process had it end so, and sent its event
	document []byte              // the record as the store was given it, from isFiled on; nil: it was not
}

// refused is the end of an activation that never reaches a container.
func refused(status int, text string) *ending {
	return &ending{response: activation.ErrorResponse(status, text)}
}

// appError is one for which the action or its caller is to blame.
func appError(text string) *ending { return refused(activation.StatusApplicationError, text) }

// completer completes pending activations: it writes acks, events and records.
type completer struct {
	ctx       context.Context // ends when flushing is over
	out       Outbox
	records   Records
	journal   Journal
	instance  activation.Instance
	store     StorePolicy
	logErrors [activation.StatusWhiskError + 1]bool
	unstored  bool // a line for each record that is not kept
	events    bool // user events have a reader
	log       *slog.Logger
	observe   *observer
	wall      func() time.Time
	unsettled *unsettled
	permits   *permits
	notify    Events // nil in classic mode
}

// result sends an early result to a caller that waits while logs are still
// being collected (MessagingActiveAck: the result goes before the completion).
func (c *completer) result(p *pending, r *activation.Record) {
	if !p.Blocking {
		return
	}
	e := ending{record: r}
	if _, ok := p.end(sendResult, e); ok {
		c.unsettled.reported(p, e)
		c.ack(p, activation.NewResult(p.TransID, r))
	}
}

// complete sends the one completion of a pending activation, its event and its
// record. It does nothing when it was answered before.
func (c *completer) complete(p *pending, e ending) {
	if e.record == nil {
		c.observe.refused(p, e)
		e.record, e.combined = p.record(e.response, times{}, c.wall()), true
	}
	if c.answer(p, e) {
		c.file(p, e)
	}
}

// answer does the first half of complete: the controller, and a caller that waits,
// get how it ended. The caller of answer files the pending activation afterwards,
// when the record is whole.
func (c *completer) answer(p *pending, e ending) bool {
	from, ok := p.end(sendCompletion, e)
	if !ok {
		return false
	}
	p.stored = !e.silent && c.store.keeps(p, e.record.Response)
	if from == isResulted {
		c.unsettled.ended(p, e)
	} else {
		c.unsettled.reported(p, e)
	}
	status := e.record.Response.StatusCode
	c.observe.answered(p, status)
	if c.events && !e.silent && !e.repeated {
		c.event(p, e.record)
	}
	c.ack(p, c.shape(p, e, from == isResulted))
	c.report(p, e)
	if c.logErrors[status] {
		c.log.Warn("activation failed", keyTransID, p.TransID.ID(), keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "status", status)
	}
	return true
}

// file stores an answered pending activation's record and releases its permit, once.
func (c *completer) file(p *pending, e ending) {
	if _, ok := p.end(sendRecord, e); !ok {
		return
	}
	defer c.permits.release(p)
	defer p.settle()
	// From here on the store's queue has the log lines, and bounds their memory.
	short := e.record
	if len(short.Logs) > 0 {
		short = withLogs(short, nil)
	}
	doc := c.keep(p, e)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = ending{record: short, document: doc}
}

// rescue completes a pending activation whose admission panicked: none is lost. It is
// deferred by what admits one.
func (c *completer) rescue(p *pending) {
	if cause := recover(); cause != nil {
		c.log.Error("admission panicked", keyActivation, p.ActivationID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
		p.action = nil // it may be what is wrong
		c.abort(p, *refused(activation.StatusWhiskError, textAborted))
	}
}

// abort completes a pending activation that the code which had it left: as its caller
// or its controller has it where one of them was sent its end, else by e.
func (c *completer) abort(p *pending, e ending) {
	if _, was := p.ended(); was.record != nil {
		e = was
	}
	c.complete(p, e)
	c.file(p, e)
}

// endedElsewhere lets go of a pending activation that another invoker, the queue that
// it came from or an earlier process has, or completed: nothing is sent of it. It is
// settled before anything hears of that, since it may come again.
func (c *completer) endedElsewhere(p *pending) {
	p.settle()
	c.report(p, ending{})
	c.permits.release(p)
}

// keep stores the record unless the store policy has it otherwise. It returns what
// it stored.
func (c *completer) keep(p *pending, e ending) (document []byte) {
	switch {
	case p.stored:
		return c.put(p, e.record)
	case c.unstored && !e.silent:
		c.log.Info("record is not stored", keyTransID, p.TransID.ID(), keyActivation, p.ActivationID, "status", e.record.Response.StatusCode)
	}
	return nil
}

// shape picks the ack that frees the slot (contract of CommonLoadBalancer): a
// completion after a result or for a caller that does not wait, else both in
// one. What never reached a container is always one combined ack, by id for a
// caller that does not wait.
func (c *completer) shape(p *pending, e ending, resulted bool) activation.Ack {
	failed := e.record.Response.SystemError() && !e.earlier
	if resulted || (!p.Blocking && !e.combined) {
		return activation.NewCompletion(p.TransID, p.ActivationID, failed, c.sentTo(p))
	}
	ack := activation.NewCombined(p.TransID, e.record, c.sentTo(p))
	ack.SystemError = failed
	if !p.Blocking || e.silent {
		return ack.Shrink()
	}
	return ack
}

// sentTo is the invoker that the controller sent a pending activation's message
// to: this one, unless another forwarded it. Its slot is what the acks free.
func (c *completer) sentTo(p *pending) activation.Instance {
	if p.Forwarded != nil {
		return p.Forwarded.Instance
	}
	return c.instance
}

func (c *completer) ack(p *pending, ack activation.Ack) {
	p.outstanding.Add(1)
	p.unsent.Add(1)
	if c.ctx.Err() != nil {
		return // the activation is delivered again to the next process
	}
	err := c.out.Ack(c.ctx, p.Controller, ack, func(err error) {
		if errors.Is(err, ErrUnsent) {
			c.log.Warn("ack not sent, its activation is delivered again after a restart", keyActivation, p.ActivationID, "kind", ack.Kind.String(), "error", err)
			return
		}
		c.observe.acked(p, ack.Kind, err)
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

func (c *completer) put(p *pending, r *activation.Record) (document []byte) {
	document = r.Document(c.wall().UnixMilli())
	p.outstanding.Add(1)
	if c.ctx.Err() != nil {
		return document
	}
	err := c.records.Put(c.ctx, r.DocumentID(), document, func(batch int, err error) {
		c.observe.stored(p, batch, err)
		if err != nil {
			c.log.Error("record refused by the store", keyActivation, p.ActivationID, "error", err)
		}
		p.settle()
	})
	if err != nil {
		c.log.Error("store record", keyActivation, p.ActivationID, "error", err)
	}
	return document
}

// Outcome reports how an activation ended, or that another invoker has it.
type Outcome struct {
	ID    activation.ID
	Pin   Pin
	Took  time.Duration // by its record; on a GPU without /init
	Ran   bool          // false: it reached no container here
	Keeps bool          // its container can be used again
}

// report reports how an activation ended, in scheduler mode. Without a record another
// invoker has the activation.
func (c *completer) report(p *pending, e ending) {
	if c.notify == nil {
		return
	}
	end := Outcome{ID: p.ActivationID, Pin: p.Pin, Keeps: true}
	if r := e.record; r != nil {
		end.Keeps = r.Response.StatusCode < activation.StatusDeveloperError
		end.Ran = !e.combined
		if r.Duration != nil {
			end.Took = time.Duration(*r.Duration) * time.Millisecond
			if init, ok := r.Annotations.Number("initTime"); ok && p.gpu != nil {
				end.Took -= time.Duration(init) * time.Millisecond
			}
		}
	}
	c.notify.Notify(end)
}
