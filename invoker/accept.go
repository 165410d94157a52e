package invoker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
)

// accept pulls a message only while a permit is free. That is how the pressure of slow
// containers or a slow database reaches Kafka.
func (iv *Invoker) accept(ctx context.Context) {
	for iv.health.await(ctx) {
		if !iv.completer.reserve(ctx) {
			return
		}
		del, err := iv.ports.Feed.Next(ctx)
		if err != nil {
			iv.completer.unreserve()
			if ctx.Err() == nil {
				iv.log.Error("feed ended", "error", err)
			}
			return
		}
		if p := iv.completer.accept(del); !del.Completed {
			iv.admit(p)
		}
	}
}

// way is the next step of a pending activation.
type way uint8

const (
	toFetch   way = iota // its action is not in memory
	toRun                // in a container of the CPU path or of the GPU scheduler
	toForward            // to an invoker that has a GPU
	toEnd                // it never runs
)

// admit starts the next step of a pending activation. Every step except a run may block,
// so it gets a goroutine.
func (iv *Invoker) admit(p *pending) {
	defer iv.completer.rescue(p)
	way, no := toFetch, (*ending)(nil)
	switch {
	case p.Recovery(false) == delivery.Repeat:
		way, no = toEnd, iv.repeated(p)
	case iv.ports.Blacklist.Blocked(p.User.Namespace.Name):
		way, no = toEnd, iv.blocked(p)
	case p.Revision != "":
		if a, cached := iv.ports.Actions.Cached(p.Action.FQN(), p.Revision); cached {
			way, no = iv.wayOf(p, a)
		}
	}
	if way == toRun {
		iv.dispatch.post(arrived{p})
		return
	}
	iv.admissions.Go(func() { iv.carry(p, way, no) })
}

// wayOf returns the next step of a pending activation whose action is known, and its end if it
// never runs.
func (iv *Invoker) wayOf(p *pending, a *activation.Action) (way, *ending) {
	no := iv.settings.route(p, a)
	if how := p.Recovery(a.Annotations.Rerun(iv.settings.Rerun)); no == nil && how != delivery.Run {
		no = iv.interrupted(p, how)
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

// carry carries out the next step of a pending activation. It may block.
func (iv *Invoker) carry(p *pending, way way, no *ending) {
	defer iv.completer.rescue(p)
	if way == toFetch {
		// The action's own time limit is not known yet: wait as long as the longest run, and a minute.
		longest := time.Duration(iv.settings.Bounds.TimeoutMillis.Max) * time.Millisecond
		ctx, cancel := context.WithTimeout(iv.completer.ctx, longest+time.Minute)
		a, err := iv.ports.Actions.Action(ctx, p.Action.FQN(), p.Revision)
		cancel()
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
		iv.completer.end(p, *no)
	}
}

// repeated returns the end that the activation had in an earlier process. Its receivers
// may know this end, and a stored record stays as it is.
func (iv *Invoker) repeated(p *pending) *ending {
	iv.log.Info("the end of an activation in an earlier process is sent again", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "status", p.Ended.Response.StatusCode)
	iv.observe.interrupted(p, "reported")
	return &ending{End: delivery.End{Record: p.Ended, Combined: true, Earlier: true, Repeated: true}}
}

// blocked is the end of an activation of a blocked namespace: the shortest ack, no
// record and no event (InvokerReactive.handleActivationMessage).
func (iv *Invoker) blocked(p *pending) *ending {
	iv.log.Warn(fmt.Sprintf("namespace %s was blocked in invoker.", p.User.Namespace.Name), // the original's text
		keyTransID, p.TransID.Root(), keyClass, "InvokerReactive", keyActivation, p.ActivationID)
	e := appError(textBlocked)
	e.Silent = true
	return e
}

// Texts of activations that were running when an invoker ended.
const (
	textInterrupted = "The invoker ended while the action ran. Whether the action did its work is not known, and it is not run again: its annotation rerun, or the setting whisk.invoker.rerun, would allow that."
	textAttempts    = "The invoker ended %d times while the action ran. It is not run again."
)

// interrupted returns the end of an activation that an earlier process had begun to run,
// or nil if it runs again.
//
// The record shows a whisk error. The ack does not: a controller that receives three system
// errors among ten acks takes the invoker for unhealthy, and after a crash there are as many
// interrupted activations as ran.
func (iv *Invoker) interrupted(p *pending, how delivery.Recovery) *ending {
	text := textInterrupted
	switch how {
	case delivery.GiveUp:
		text = fmt.Sprintf(textAttempts, p.Attempts)
	case delivery.RunAgain:
		iv.log.Info("activation that an earlier process had begun runs again", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "attempts", p.Attempts)
		iv.observe.interrupted(p, "rerun")
		return nil
	}
	iv.log.Warn("activation that an earlier process had begun is answered with an error", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "attempts", p.Attempts)
	iv.observe.interrupted(p, "answered")
	e := refused(activation.StatusWhiskError, text)
	e.Earlier = true
	return e
}

// maxHops bounds how often an activation is forwarded. One hop reaches an invoker with a
// GPU, and a second hop another invoker if the first has just lost its GPU. More is a circle.
const maxHops = 2

// hops returns how often a pending activation was forwarded.
func (p *pending) hops() int {
	if p.Forwarded == nil {
		return 0
	}
	return p.Forwarded.Hops
}

// forward sends an activation to an invoker that has a GPU, and which answers it: once the
// broker has the message, nothing is acked here and no record is written. An activation that
// cannot be forwarded waits for a device if this invoker has one, and is answered otherwise.
// forward may block.
func (iv *Invoker) forward(p *pending) {
	to, err := iv.ports.GPUHosts.Choose(iv.completer.ctx, p.User.Namespace.Name, p.action.FQN())
	switch {
	case err == nil:
	case iv.completer.ctx.Err() != nil: // the message is delivered again after a restart
		iv.completer.take(p, delivery.Event{Kind: delivery.Left})
		return
	default:
		iv.notForwarded(p, appError(fmt.Sprintf(textNotForwarded, err)))
		return
	}
	if !iv.completer.pass(p) {
		iv.notForwarded(p, refused(activation.StatusWhiskError, fmt.Sprintf(textNotForwarded, "its journal has no space for it")))
		return
	}
	m := *p.Message
	m.Forwarded = &activation.Forwarded{Instance: *p.sentTo, Hops: p.hops() + 1}
	sent := func(err error) {
		switch {
		case err == nil:
			iv.observe.forwarded()
			iv.completer.take(p, delivery.Event{Kind: delivery.Passed})
		case errors.Is(err, activation.ErrUnsent): // the message is delivered again after a restart
			iv.log.Warn("forward activation", keyActivation, p.ActivationID, "invoker", to, "error", err)
			iv.completer.take(p, delivery.Event{Kind: delivery.Left})
		default:
			why := fmt.Sprintf("the topic of invoker%d does not take it: %s", to, err)
			iv.notForwarded(p, refused(activation.StatusWhiskError, fmt.Sprintf(textNotForwarded, why)))
		}
	}
	if err := iv.ports.Outbox.Forward(iv.completer.ctx, to, m.Encode(), sent); err != nil {
		// Flushing is over, and no invoker has the message: the next process may run it.
		iv.completer.take(p, delivery.Event{Kind: delivery.Refused})
		sent(fmt.Errorf("%w: %w", activation.ErrUnsent, err))
	}
}

// textNotForwarded answers an activation that cannot be forwarded.
const textNotForwarded = "The action asks for a GPU, and its activation could not be passed on to an invoker that has one (whisk.gpu.forward-to): %s."

// notForwarded goes on with an activation that cannot be forwarded. It does not block.
func (iv *Invoker) notForwarded(p *pending, e *ending) {
	iv.completer.take(p, delivery.Event{Kind: delivery.Refused})
	iv.dispatch.post(notForwarded{p, e})
}

// notForwarded reports that an activation cannot be forwarded: it waits for a device here,
// or ends with the reason.
type notForwarded struct {
	p   *pending
	end *ending
}

func (e notForwarded) apply(d *dispatcher, now time.Duration) {
	p := e.p
	if d.gpus != nil {
		notReturned{p: p}.apply(d, now)
		return
	}
	d.log.Error("forward activation", keyActivation, p.ActivationID, keyAction, p.Action.FQN(), "error", string(e.end.response.Result))
	d.refuse(p, e.end)
}
