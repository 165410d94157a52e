package invoker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/spans"
)

// accept pulls messages while a permit is free, and only then: that is how the
// pressure of slow containers or a slow store reaches Kafka.
func (iv *Invoker) accept(ctx context.Context) {
	for iv.health.await(ctx) {
		select {
		case iv.permits.common <- struct{}{}:
		case <-ctx.Done():
			return
		}
		del, err := iv.ports.Feed.Next(ctx)
		if err != nil {
			<-iv.permits.common
			if ctx.Err() == nil {
				iv.log.Error("feed ended", "error", err)
			}
			return
		}
		iv.permits.taken.Add(1)
		p := newPending(iv.completer, del, iv.dispatch.clock())
		iv.observe.accepted(p, del.Completed)
		if del.Completed {
			iv.skip(p)
			continue
		}
		iv.completer.aging.add(p)
		if del.Ended != nil {
			go iv.guard(p, func() { iv.repeatEnding(p, del.Ended) })
			continue
		}
		iv.admit(p)
	}
}

// admit resolves a pending activation's action: at once when it is cached, in a
// goroutine of its own when it must be fetched.
func (iv *Invoker) admit(p *pending) {
	if iv.ports.Blacklist.Blocked(p.User.Namespace.Name) {
		go iv.guard(p, func() { iv.block(p) })
		return
	}
	a, cached := iv.cached(p)
	iv.observe.fetched(p, cached)
	if cached {
		iv.guard(p, func() { iv.resolved(p, a) })
		return
	}
	go iv.guard(p, func() { iv.fetch(p) })
}

// cached is the action of a pending activation if it is in memory.
func (iv *Invoker) cached(p *pending) (*activation.Action, bool) {
	if p.Revision == "" {
		return nil, false
	}
	return iv.ports.Actions.Cached(p.Action.FQN(), p.Revision)
}

// guard runs f, which passes the pending activation on or completes it. If f
// panics, it is completed here: a pending activation is never lost.
func (iv *Invoker) guard(p *pending, f func()) {
	defer func() {
		if cause := recover(); cause != nil {
			iv.log.Error("admission panicked", keyActivation, p.ActivationID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			iv.reject(p, refusal{response: activation.ErrorResponse(activation.StatusWhiskError, textAborted)})
		}
	}()
	f()
}

// block answers an activation of a blocked namespace: the shortest ack, no
// record and no event (InvokerReactive.handleActivationMessage).
func (iv *Invoker) block(p *pending) {
	r := appError(textBlocked)
	iv.log.Warn(fmt.Sprintf("namespace %s was blocked in invoker.", p.User.Namespace.Name), // the original's text
		keyTransID, p.TransID.Root(), keyClass, ofReactive, keyActivation, p.ActivationID)
	iv.observe.refused(p, r)
	iv.completer.complete(p, ending{record: fallbackRecord(p.Message, p.kind, r, time.Now()), combined: true, silent: true})
}

func (iv *Invoker) fetch(p *pending) {
	ctx, cancel := context.WithTimeout(iv.completer.ctx, iv.settings.fetchTime())
	defer cancel()
	a, err := iv.ports.Actions.Action(spans.With(ctx, p.TransID), p.Action.FQN(), p.Revision)
	if err != nil && iv.completer.ctx.Err() != nil {
		return // this process ends: the message is delivered to the next one
	}
	if err != nil {
		iv.log.Warn("fetch action", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "error", err)
		iv.reject(p, refuse(err))
		return
	}
	iv.resolved(p, a)
}

// resolved routes a pending activation whose action is known.
func (iv *Invoker) resolved(p *pending, a *activation.Action) {
	no := iv.router.route(p, a)
	if no == nil {
		no = iv.interrupted(p, a)
	}
	switch {
	case no != nil:
		go iv.guard(p, func() { iv.reject(p, *no) })
	case p.gpu != nil && iv.router.devices == 0:
		go iv.guard(p, func() { iv.forward(p) })
	default:
		if p.gpu != nil {
			iv.permits.setApart(&p.permit, size(p.Message))
		}
		iv.dispatch.post(arrived{p})
	}
}

// reject completes a pending activation that never reaches a container.
func (iv *Invoker) reject(p *pending, r refusal) {
	iv.observe.refused(p, r.response)
	rec := fallbackRecord(p.Message, p.kind, r.response, time.Now())
	if r.known && p.action != nil {
		rec = runRecord(p.Message, p.action, r.response, times{}, time.Now())
	}
	iv.completer.complete(p, ending{record: rec, combined: true, earlier: r.earlier})
}

// size is about how much memory a message takes.
func size(m *activation.Message) int64 {
	const rest = 1 << 10
	return rest + int64(len(m.Content))
}

// maxAttempts is after how many processes that ended while an activation ran
// it is not run once more: it may be what ended them.
const maxAttempts = 3

// Texts of activations that were running when an invoker ended.
const (
	textInterrupted = "The invoker ended while the action ran. Whether the action did its work is not known, and it is not run again: its annotation rerun, or the setting whisk.invoker.rerun, would allow that."
	textAttempts    = "The invoker ended %d times while the action ran. It is not run again."
)

// interrupted decides on an activation that an earlier process had begun to
// run and did not end: it is run again only where its action or the operator
// allows that, and not for ever. What had not begun just runs. nil lets it run.
//
// The record shows a whisk error. The ack does not: after a crash there are as
// many of these as ran, and a controller that receives three system errors among
// ten takes the invoker for unhealthy, which this process is not.
func (iv *Invoker) interrupted(p *pending, a *activation.Action) *refusal {
	var text string
	switch {
	case !p.begun:
		return nil
	case p.attempts >= maxAttempts:
		text = fmt.Sprintf(textAttempts, p.attempts)
	case a.Annotations.Rerun(iv.settings.Rerun):
		iv.log.Info("activation that an earlier process had begun runs again", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "attempts", p.attempts)
		iv.observe.interrupted(p, "rerun")
		return nil
	default:
		text = textInterrupted
	}
	iv.log.Warn("activation that an earlier process had begun is answered with an error", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "attempts", p.attempts)
	iv.observe.interrupted(p, "answered")
	return &refusal{known: true, earlier: true, response: activation.ErrorResponse(activation.StatusWhiskError, text)}
}

// skip settles an activation that an earlier process has completed: its acks and
// its record are safe, only its offset was not committed yet.
func (iv *Invoker) skip(p *pending) {
	iv.observe.interrupted(p, "completed")
	iv.completer.reportEnd(p, ending{})
	p.settle()
	iv.permits.release(p.permit)
}

// maxHops is how often an activation is forwarded before it must be answered:
// one hop reaches an invoker with a GPU, a second one another when the first has
// just lost its own. More is a circle.
const maxHops = 2

// forward sends an activation on to invokers that have a GPU. They answer it:
// from the moment that the broker has it nothing is acked here and no record
// is written. What cannot be forwarded is answered here.
func (iv *Invoker) forward(p *pending) {
	topic := iv.settings.GPU.ForwardTo
	refuse := func(why string) {
		iv.log.Error("forward activation", keyActivation, p.ActivationID, "topic", topic, "error", why)
		iv.reject(p, refusal{known: true, response: activation.ErrorResponse(activation.StatusWhiskError,
			fmt.Sprintf("The action asks for a GPU, and its activation could not be passed on to the invokers that have one (whisk.gpu.forward-topic): %s.", why))})
	}
	way := activation.Forwarded{Instance: iv.completer.instance}
	if p.Forwarded != nil {
		way = *p.Forwarded
	}
	if way.Hops++; way.Hops > maxHops {
		refuse(fmt.Sprintf("it was passed on %d times already and came back to %s, which has no GPU", maxHops, iv.completer.instance.Topic()))
		return
	}
	if !p.take(startForward) {
		return
	}
	m := *p.Message
	m.Forwarded = &way
	// A function stays with one of the invokers that share the topic: where it
	// is warm.
	key := p.User.Namespace.Name + " " + p.action.FQN()
	unsent := func(err error) { // the message is delivered again after a restart
		iv.log.Warn("forward activation", keyActivation, p.ActivationID, "topic", topic, "error", err)
		iv.permits.release(p.permit)
	}
	err := iv.ports.Outbox.Forward(iv.completer.ctx, topic, key, m.Encode(), func(err error) {
		switch {
		case errors.Is(err, ErrUnsent):
			unsent(err)
		case err != nil:
			p.take(failForward)
			go iv.guard(p, func() { refuse(fmt.Sprintf("the topic %s does not take it: %s", topic, err)) })
		default:
			p.take(endForward)
			iv.observe.forwarded(p)
			iv.completer.reportEnd(p, ending{})
			iv.permits.release(p.permit)
			p.settle()
		}
	})
	if err != nil { // flushing is over
		unsent(err)
	}
}
