package invoker

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// completer reports the events of pending activations to the delivery table and carries
// out the table's orders: it writes entries of the journal, and sends acks, events and
// records. The table decides which of these steps are due, and in which order.
type completer struct {
	ctx       context.Context // ends when flushing is over
	outbox    Outbox
	records   Records
	journal   Journal // nil: there is none
	instance  activation.Instance
	store     StorePolicy
	logErrors [activation.StatusWhiskError + 1]bool
	unstored  bool // a line is logged for each record that is not stored
	log       *slog.Logger
	observe   *observer
	wall      func() time.Time
	clock     func() time.Duration
	notify    Events        // nil in classic mode
	freed     chan struct{} // capacity 1: a permit is free
	failing   atomic.Bool   // the journal did not take the last ends

	mu    sync.Mutex
	table *delivery.Table
}

// ending states how a pending activation ends.
type ending struct {
	delivery.End
	response activation.Response // the response if Record is nil: it never reached a container
	cause    string              // for traces, if the response has text of a user; else empty
}

// refused is the end of an activation that never reaches a container.
func refused(status int, text string) *ending {
	return &ending{response: activation.ErrorResponse(status, text)}
}

// appError is the end of an activation whose action or caller is to blame.
func appError(text string) *ending { return refused(activation.StatusApplicationError, text) }

// accept adds a message to the table. The caller has reserved a permit.
func (c *completer) accept(d Delivery) *pending {
	p := &pending{Delivery: d, completer: c, accepted: c.clock(), sentTo: &c.instance}
	if d.Forwarded != nil {
		p.sentTo = &d.Forwarded.Instance
	}
	c.observe.accepted(p)
	c.mu.Lock()
	p.state = c.table.Deliver(delivery.Arrival{
		ID: d.ActivationID, Blocking: d.Blocking, Journaled: c.journal != nil && !d.NotJournaled, Fetched: d.Fetched, History: d.History,
	})
	c.mu.Unlock()
	if d.Completed {
		c.observe.interrupted(p, "completed")
		c.take(p, delivery.Event{Kind: delivery.Skipped})
	}
	return p
}

// Fetched takes an activation that a scheduler has handed out. It stores the message in the
// journal and adds the history of an earlier process to the delivery. It returns false if
// this process has the activation already: the delivery must then be dropped.
func (iv *Invoker) Fetched(d *Delivery, message []byte) bool {
	return iv.completer.fetch(d, message)
}

func (c *completer) fetch(d *Delivery, message []byte) bool {
	d.Fetched = true
	c.mu.Lock()
	fresh := c.table.Fetch(d.ActivationID)
	c.mu.Unlock()
	if !fresh || c.journal == nil {
		return fresh
	}
	history, fresh, err := c.journal.AppendFetched(d.ActivationID, message)
	if err != nil {
		c.log.Error("a fetched activation is not in the journal: it is lost with this process", keyActivation, d.ActivationID, "error", err)
	}
	if d.History = history; !fresh {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.table.Unfetch(d.ActivationID)
	}
	return fresh
}

// take reports an event of a pending activation and carries out the orders. Orders on which
// the caller waits are left to the caller: take returns AppendBegin to begin, and AppendPass
// and Pass to pass.
func (c *completer) take(p *pending, e delivery.Event) (left []delivery.Order) {
	e.Activation = p.state
	c.mu.Lock()
	orders := c.table.Take(c.clock(), e)
	c.mu.Unlock()
	for i, o := range orders {
		switch o.Do {
		case delivery.AppendBegin, delivery.AppendPass, delivery.Pass:
			return orders[i:]
		case delivery.AppendEnd:
			c.persist([]delivery.Order{o})
		case delivery.AppendComplete:
			c.journal.Completed(p.ActivationID)
		case delivery.AppendRefused:
			c.journal.AbortHandback(p.ActivationID)
		case delivery.AppendForget:
			if err := c.journal.CommitHandback(p.ActivationID); err != nil {
				c.log.Error("an activation that was given back is still in the journal: the next process answers it", keyActivation, p.ActivationID, "error", err)
			}
		case delivery.CommitBegin:
			if p.Commit != nil {
				p.Commit(p.BeginMarks())
			}
		case delivery.SendResult:
			c.ack(p, activation.NewResult(p.TransID, o.End.Record))
		case delivery.SendEvent:
			c.event(p, o.End.Record)
		case delivery.SendCompletion, delivery.SendCombined:
			c.observe.answered(p, o.End)
			c.ack(p, c.completion(p, o))
		case delivery.Store:
			c.put(p, o.End)
		case delivery.Commit:
			c.observe.settled(p)
			p.Done()
		case delivery.Report:
			c.report(p, o.End)
		case delivery.Release:
			select {
			case c.freed <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// begin reports that the action is about to run. It returns when the journal, or else Kafka's
// broker, has that. With an error the action must not run: ctx has ended.
func (c *completer) begin(ctx context.Context, p *pending) error {
	if len(c.take(p, delivery.Event{Kind: delivery.Begun})) == 0 {
		return nil
	}
	written, err := c.journal.Begin(ctx, p.ActivationID, p.Attempts)
	if err == nil && !written {
		c.take(p, delivery.Event{Kind: delivery.Unwritten})
	}
	return err
}

// pass reports that another invoker is about to get a pending activation. It returns false
// if the activation must stay here. If the journal cannot record the pass, only a fetched
// activation stays, because the journal has its only copy.
func (c *completer) pass(p *pending) bool {
	for _, o := range c.take(p, delivery.Event{Kind: delivery.Passing}) {
		if o.Do == delivery.Pass {
			return true
		}
		if err := c.journal.BeginHandback(p.ActivationID); err != nil {
			c.log.Warn("passing an activation on is not in the journal", keyActivation, p.ActivationID, "error", err)
			if p.Fetched {
				c.take(p, delivery.Event{Kind: delivery.Refused})
				return false
			}
		}
	}
	return false
}

// end ends a pending activation that does not end by its run: it is refused, an earlier
// process ended it, its admission or its worker failed. If its caller or its controller
// knows an end already, that end counts.
func (c *completer) end(p *pending, e ending) {
	if e.Record == nil {
		c.observe.refused(p, e)
		e.Record, e.Combined = p.record(e.response, c.wall()), true
	}
	e.Store = !e.Silent && c.store.keeps(p, e.Record.Response)
	c.take(p, delivery.Event{Kind: delivery.Ended, End: e.End})
}

// rescue ends a pending activation after a panic outside of its run. Every goroutine that
// owns a pending activation without a run defers it.
func (c *completer) rescue(p *pending) {
	if cause := recover(); cause != nil {
		c.log.Error("handling of an activation panicked", keyActivation, p.ActivationID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
		p.action = nil // it may be the cause
		c.end(p, *refused(activation.StatusWhiskError, proxy.TextAbnormal))
	}
}

// reserve waits for a permit for the next message. It returns false when ctx has ended.
func (c *completer) reserve(ctx context.Context) bool {
	for {
		c.mu.Lock()
		ok := c.table.Reserve()
		c.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-c.freed:
		case <-ctx.Done():
			return false
		}
	}
}

func (c *completer) unreserve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table.Unreserve()
}

// unfinished returns how many activations are accepted and not finished.
func (c *completer) unfinished() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Unfinished()
}

// backlog returns the number and the memory of the activations of the GPU backlog.
func (c *completer) backlog() (activations int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Backlog()
}

// drain waits until every accepted activation is finished, or until late. It returns how
// many are not. Nothing is accepted meanwhile.
func (c *completer) drain(late <-chan time.Time) (unfinished int) {
	for {
		if unfinished = c.unfinished(); unfinished == 0 {
			return 0
		}
		select {
		case <-c.freed:
		case <-late:
			return c.unfinished()
		}
	}
}

// watch gives the journal the ends that are not safe for long, until ctx ends.
func (c *completer) watch(ctx context.Context) {
	ticker := time.NewTicker(delivery.TickTime)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.tick()
		case <-ctx.Done():
			return
		}
	}
}

func (c *completer) tick() {
	c.mu.Lock()
	orders := c.table.Tick(c.clock())
	c.mu.Unlock()
	c.persist(orders)
}

// stop gives the journal all ends that are not safe. Nothing more is sent.
func (c *completer) stop() {
	c.mu.Lock()
	orders := c.table.Stop()
	c.mu.Unlock()
	c.persist(orders)
}

// persistBatch bounds the encoded records in memory at once.
const persistBatch = 64

// persist writes ends to the journal. It logs when the journal begins to refuse ends that are
// not safe.
func (c *completer) persist(orders []delivery.Order) {
	if len(orders) == 0 {
		return
	}
	failed, why := 0, error(nil)
	for batch := range slices.Chunk(orders, persistBatch) {
		ids, docs := make([]activation.ID, len(batch)), make([][]byte, len(batch))
		for i, o := range batch {
			ids[i], docs[i] = o.Activation.ID, o.End.Document
			if docs[i] == nil {
				docs[i] = o.End.Record.Document(c.wall().UnixMilli())
			}
		}
		errs := c.journal.KeepUnacknowledged(ids, docs)
		c.mu.Lock()
		for i, o := range batch {
			switch {
			case errs[i] == nil:
				c.table.Take(c.clock(), delivery.Event{Kind: delivery.Persisted, Activation: o.Activation, Version: o.Version})
			case o.Activation.Unsafe():
				failed, why = failed+1, errs[i]
			}
		}
		c.mu.Unlock()
	}
	if before := c.failing.Swap(failed > 0); failed > 0 && !before {
		c.log.Error("results of activations are not kept for the next process", "activations", failed, "error", why)
	}
}
