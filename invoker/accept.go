package invoker

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/steps"
)

// accept pulls messages while there is room, and only then: that is how the
// pressure of slow containers or a slow store reaches Kafka.
func (iv *Invoker) accept(ctx context.Context) {
	for iv.health.await(ctx) {
		select {
		case iv.places.common <- struct{}{}:
		case <-ctx.Done():
			return
		}
		del, err := iv.ports.Feed.Next(ctx)
		if err != nil {
			<-iv.places.common
			if ctx.Err() == nil {
				iv.log.Error("feed ended", "error", err)
			}
			return
		}
		iv.places.taken.Add(1)
		iv.metrics.accepted.Inc()
		t := newTicket(iv.desk, del, iv.dispatch.clock())
		if del.Completed {
			iv.pass(t)
			continue
		}
		iv.marks.accepted(t)
		iv.desk.old.add(t)
		if del.Ended != nil {
			go iv.guard(t, func() { iv.tellAgain(t, del.Ended) })
			continue
		}
		iv.admit(t)
	}
}

// admit resolves a ticket's action: at once when the action is at hand, beside
// the feed when it must be fetched.
func (iv *Invoker) admit(t *ticket) {
	if iv.ports.Blacklist.Blocked(t.User.Namespace.Name) {
		go iv.guard(t, func() { iv.block(t) })
		return
	}
	if c, ok := iv.ports.Actions.(CachedActions); ok && t.Revision != "" {
		if a, ok := c.Cached(t.Action.FQN(), t.Revision); ok {
			iv.marks.fetched(t, true)
			iv.guard(t, func() { iv.resolved(t, a) })
			return
		}
	}
	iv.marks.fetched(t, false)
	go iv.guard(t, func() { iv.fetch(t) })
}

// guard runs f, which hands the ticket on or completes it. If f panics, the
// ticket is completed here: a ticket is never lost.
func (iv *Invoker) guard(t *ticket, f func()) {
	defer func() {
		if p := recover(); p != nil {
			iv.log.Error("admission panicked", keyActivation, t.ActivationID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			iv.turnAway(t, nil, refusal{response: activation.ErrorResponse(activation.StatusWhiskError, textAborted)})
		}
	}()
	f()
}

// block answers for a namespace that may not invoke: the shortest ack, no
// record and no event (InvokerReactive.handleActivationMessage).
func (iv *Invoker) block(t *ticket) {
	r := appError(textBlocked)
	iv.log.Warn(fmt.Sprintf("namespace %s was blocked in invoker.", t.User.Namespace.Name), // as the original says it
		keyTransID, t.TransID.Root(), keyClass, ofReactive, keyActivation, t.ActivationID)
	t.refused(r)
	iv.desk.complete(t, ending{record: fallbackRecord(t.Message, r, time.Now()), whole: true, silent: true})
}

func (iv *Invoker) fetch(t *ticket) {
	ctx, cancel := context.WithTimeout(iv.desk.ctx, iv.settings.fetchTime())
	defer cancel()
	a, err := iv.ports.Actions.Action(steps.With(ctx, t.TransID), t.Action.FQN(), t.Revision)
	if err != nil && iv.desk.ctx.Err() != nil {
		return // this process ends: its activation is delivered again to the next
	}
	if err != nil {
		iv.log.Warn("fetch action", keyActivation, t.ActivationID, keyAction, t.Action.FQN(), "error", err)
		iv.turnAway(t, nil, refuse(err))
		return
	}
	iv.resolved(t, a)
}

// resolved routes a ticket whose action is known.
func (iv *Invoker) resolved(t *ticket, a *activation.Action) {
	j, no := iv.router.route(t, a)
	if no == nil {
		no = iv.interrupted(t, a)
	}
	switch {
	case no != nil:
		go iv.guard(t, func() { iv.turnAway(t, &job{action: a}, *no) })
	case j.gpu != nil && iv.router.devices == 0:
		go iv.guard(t, func() { iv.forward(j) })
	default:
		if j.gpu != nil {
			iv.places.setApart(&t.place, size(t.Message))
		}
		iv.dispatch.post(arrived{j})
	}
}

// turnAway completes a ticket that never reaches a container. j is nil when
// nothing is known of the action.
func (iv *Invoker) turnAway(t *ticket, j *job, r refusal) {
	t.refused(r.response)
	rec := fallbackRecord(t.Message, r.response, time.Now())
	if r.known && j != nil {
		rec = runRecord(t.Message, j.action, r.response, times{}, time.Now())
	}
	iv.desk.complete(t, ending{record: rec, whole: true, former: r.former})
}

// size is about what a message holds in memory.
func size(m *activation.Message) int64 {
	const rest = 1 << 10
	return rest + int64(len(m.Content))
}
