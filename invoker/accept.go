package invoker

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
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
		iv.observe.accepted(p)
		iv.admit(p)
	}
}

// way is what becomes of a pending activation.
type way uint8

const (
	toFetch   way = iota // its action is not in memory
	toRun                // in a container of the CPU path's or the GPU scheduler's
	toForward            // to an invoker that has a GPU
	toEnd                // it never runs
	toForget             // an earlier process completed it
)

// admit sends a pending activation on its way. All but a run may wait, and has a
// goroutine of its own.
func (iv *Invoker) admit(p *pending) {
	defer iv.completer.rescue(p)
	way, no := iv.decide(p)
	if way == toRun {
		iv.dispatch.post(arrived{p})
		return
	}
	go iv.carry(p, way, no)
}

// decide finds the way of a pending activation, and how it ends if it never runs.
func (iv *Invoker) decide(p *pending) (way, *ending) {
	switch {
	case p.Completed: // all is safe, only its offset was not committed yet
		iv.observe.interrupted(p, "completed")
		return toForget, nil
	case p.Ended != nil:
		return toEnd, iv.repeated(p)
	case iv.ports.Blacklist.Blocked(p.User.Namespace.Name):
		return toEnd, iv.blocked(p)
	}
	a, cached := iv.cached(p)
	if !cached {
		return toFetch, nil
	}
	return iv.wayOf(p, a)
}

// wayOf finds the way of a pending activation whose action is known.
func (iv *Invoker) wayOf(p *pending, a *activation.Action) (way, *ending) {
	no := iv.settings.route(p, a)
	if no == nil {
		no = iv.interrupted(p)
	}
	switch {
	case no != nil:
		return toEnd, no
	case p.gpu == nil || iv.dispatch.backlog.Load() >= 0:
		return toRun, nil
	case len(iv.settings.GPU.Devices) > 0 && !iv.dispatch.mayPassOn(p): // it waits for a device
		return toRun, nil
	case p.hops() >= maxHops:
		why := fmt.Sprintf("it was passed on %d times already and came back to %s, which has no GPU", maxHops, iv.completer.instance.Topic())
		return toEnd, refused(activation.StatusWhiskError, fmt.Sprintf(textNotForwarded, why))
	}
	return toForward, nil
}

// carry takes a pending activation along a way that may wait.
func (iv *Invoker) carry(p *pending, way way, no *ending) {
	defer iv.completer.rescue(p)
	if way == toFetch {
		a, err := iv.awaitAction(iv.completer.ctx, p)
		switch {
		case err == nil:
			way, no = iv.wayOf(p, a)
		case iv.completer.ctx.Err() != nil:
			return // this process ends: the message is delivered to the next one
		default:
			iv.log.Warn("fetch action", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "error", err)
			way, no = toEnd, unfetched(err)
		}
	}
	switch way {
	case toRun:
		iv.dispatch.post(arrived{p})
	case toForward:
		iv.forward(p)
	case toEnd:
		iv.completer.complete(p, *no)
	case toForget:
		iv.completer.endedElsewhere(p)
	}
}

// repeated is how an activation ended in an earlier process. Its receivers may know
// it, and a record that is stored already stays as it is.
func (iv *Invoker) repeated(p *pending) *ending {
	iv.log.Info("the end of an activation in an earlier process is sent again", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "status", p.Ended.Response.StatusCode)
	iv.observe.interrupted(p, "reported")
	return &ending{record: p.Ended, combined: true, earlier: true, repeated: true}
}

// blocked is the end of an activation of a blocked namespace: the shortest ack, no
// record and no event (InvokerReactive.handleActivationMessage).
func (iv *Invoker) blocked(p *pending) *ending {
	iv.log.Warn(fmt.Sprintf("namespace %s was blocked in invoker.", p.User.Namespace.Name), // the original's text
		keyTransID, p.TransID.Root(), keyClass, "InvokerReactive", keyActivation, p.ActivationID)
	e := appError(textBlocked)
	e.silent = true
	return e
}

// cached is the action of a pending activation if it is in memory.
func (iv *Invoker) cached(p *pending) (*activation.Action, bool) {
	if p.Revision == "" {
		return nil, false
	}
	return iv.ports.Actions.Cached(p.Action.FQN(), p.Revision)
}

// awaitAction is the action of a pending activation, for which it waits.
func (iv *Invoker) awaitAction(ctx context.Context, p *pending) (*activation.Action, error) {
	ctx, cancel := context.WithTimeout(ctx, iv.settings.fetchTime())
	defer cancel()
	return iv.ports.Actions.Action(ctx, p.Action.FQN(), p.Revision)
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
func (iv *Invoker) interrupted(p *pending) *ending {
	var text string
	switch {
	case !p.Begun:
		return nil
	case p.Attempts >= maxAttempts:
		text = fmt.Sprintf(textAttempts, p.Attempts)
	case p.action.Annotations.Rerun(iv.settings.Rerun):
		iv.log.Info("activation that an earlier process had begun runs again", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "attempts", p.Attempts)
		iv.observe.interrupted(p, "rerun")
		return nil
	default:
		text = textInterrupted
	}
	iv.log.Warn("activation that an earlier process had begun is answered with an error", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "attempts", p.Attempts)
	iv.observe.interrupted(p, "answered")
	e := refused(activation.StatusWhiskError, text)
	e.earlier = true
	return e
}

// maxHops is how often an activation is forwarded before it must be answered:
// one hop reaches an invoker with a GPU, a second one another when the first has
// just lost its own. More is a circle.
const maxHops = 2

// hops returns how often a pending activation was forwarded.
func (p *pending) hops() int {
	if p.Forwarded == nil {
		return 0
	}
	return p.Forwarded.Hops
}

// forward sends an activation on to an invoker that has a GPU, which answers it: from the
// moment that the broker has the message nothing is acked here and no record is written.
// An activation that cannot be forwarded waits for a device if this invoker has one, and
// is answered otherwise. forward may block.
func (iv *Invoker) forward(p *pending) {
	if !p.take(startPass) {
		return
	}
	to, err := iv.ports.GPUHosts.Choose(iv.completer.ctx, p.User.Namespace.Name, p.action.FQN())
	switch {
	case err == nil:
	case iv.completer.ctx.Err() != nil: // the message is delivered again after a restart
		iv.permits.release(p)
		return
	default:
		iv.notForwarded(p, *appError(fmt.Sprintf(textNotForwarded, err)))
		return
	}
	m := *p.Message
	m.Forwarded = &activation.Forwarded{Instance: iv.completer.sentTo(p), Hops: p.hops() + 1}
	sent := func(err error) {
		switch {
		case err == nil:
			p.take(endPass)
			iv.observe.forwarded()
			iv.completer.endedElsewhere(p)
		case errors.Is(err, ErrUnsent): // the message is delivered again after a restart
			iv.log.Warn("forward activation", keyActivation, p.ActivationID, "invoker", to, "error", err)
			iv.permits.release(p)
		default:
			why := fmt.Sprintf("the topic of invoker%d does not take it: %s", to, err)
			go iv.notForwarded(p, *refused(activation.StatusWhiskError, fmt.Sprintf(textNotForwarded, why)))
		}
	}
	if err := iv.ports.Outbox.Forward(iv.completer.ctx, to, m.Encode(), sent); err != nil {
		sent(fmt.Errorf("%w: %w", ErrUnsent, err)) // flushing is over
	}
}

// textNotForwarded answers an activation that cannot be forwarded.
const textNotForwarded = "The action asks for a GPU, and its activation could not be passed on to an invoker that has one (whisk.gpu.forward-to): %s."

// notForwarded goes on with an activation that cannot be forwarded.
func (iv *Invoker) notForwarded(p *pending, e ending) {
	defer iv.completer.rescue(p)
	p.take(failPass)
	if len(iv.settings.GPU.Devices) > 0 {
		iv.dispatch.post(notReturned{p: p})
		return
	}
	iv.log.Error("forward activation", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "error", string(e.response.Result))
	iv.completer.complete(p, e)
}
