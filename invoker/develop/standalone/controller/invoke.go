package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Call is a request for one activation.
type Call struct {
	User    activation.Identity
	TransID activation.TransID
	Action  *couchdb.Resolved
	Payload json.RawMessage // an object or an array; nil for none
	Wait    time.Duration   // 0: do not wait for the result
	Trace   json.RawMessage // the caller's trace context; nil for none
}

// Outcome is the answer to a caller: the record, or only an id if there is no result yet
// or the call is non-blocking.
type Outcome struct {
	ID     activation.ID
	Record *activation.Record
}

// Invoke runs an action or a sequence.
func (c *Controller) Invoke(ctx context.Context, call Call) (Outcome, error) {
	c.awaitInvoker(ctx)
	if call.Action.Exec.IsSequence() {
		return c.invokeSequence(ctx, call)
	}
	return c.invoke(ctx, call, "")
}

// Starting reports whether the invoker of this process has yet to become
// healthy.
func (c *Controller) Starting() bool {
	_, started := c.pool.next()
	return c.cfg.OwnInvoker && !started
}

// awaitInvoker waits while the invoker starts.
func (c *Controller) awaitInvoker(ctx context.Context) {
	if c.Starting() {
		ctx, cancel := context.WithTimeout(ctx, startTime)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		_ = c.WaitHealthy(ctx) // without one the call is refused
	}
}

// invokeSequence runs a sequence, which goes on when the caller has left.
func (c *Controller) invokeSequence(ctx context.Context, call Call) (Outcome, error) {
	if _, ok := c.pool.pick("", time.Now()); !ok {
		return Outcome{}, errNoInvoker
	}
	id := newID()
	finished := make(chan *activation.Record, 1)
	if err := c.begin(func() { finished <- c.runSequence(c.ctx, call, id, "", new(int)) }); err != nil {
		return Outcome{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, call.Wait)
	defer cancel()
	select {
	case r := <-finished:
		return Outcome{ID: id, Record: r}, nil
	case <-ctx.Done():
		return Outcome{ID: id}, nil
	}
}

// invoke runs one action on an invoker. cause is the sequence that the action is part
// of, empty for none.
func (c *Controller) invoke(ctx context.Context, call Call, cause activation.ID) (Outcome, error) {
	a := call.Action
	if a.Annotations.Truthy("conductor") {
		return Outcome{}, errConductor
	}
	given, err := parametersOf(call.Payload)
	if err != nil {
		return Outcome{}, err
	}
	content := call.Payload
	if !isArray(content) { // an array has no names, so it cannot be merged
		content = given.Over(a.Parameters).Object()
	}
	invoker, ok := c.pool.pick(call.User.Namespace.Name+"/"+a.ID, time.Now())
	if !ok {
		return Outcome{}, errNoInvoker
	}
	id, waits := newID(), call.Wait > 0
	m := activation.Message{
		TransID:      call.TransID,
		Action:       activation.ActionRef{Path: a.Namespace, Name: a.Name, Version: a.Version, Binding: a.Binding},
		Revision:     a.Rev,
		User:         call.User,
		ActivationID: id,
		Controller:   c.cfg.ID,
		Blocking:     waits,
		Content:      content,
		InitArgs:     initArgs(a.Parameters),
		Cause:        cause,
		TraceContext: call.Trace,
	}
	answers := make(chan *activation.Record, 1)
	if waits {
		c.callers.Store(id, answers)
		defer c.callers.Delete(id)
	}
	if err := c.cfg.Bus.Publish(ctx, activation.Instance{ID: invoker}.Topic(), m.Encode()); err != nil {
		if errors.Is(err, broker.ErrTooLarge) {
			return Outcome{}, errTooLarge
		}
		return Outcome{}, fmt.Errorf("send activation of %s: %w", a.ID, err)
	}
	if !waits {
		return Outcome{ID: id}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, call.Wait)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	return Outcome{id, c.waitFor(ctx, answers, call.User.Namespace.Name, id)}, nil
}

// poll is how often the database is asked for a result that an ack names and does
// not have.
const poll = 100 * time.Millisecond

// waitFor returns the record of an activation, nil when there is none in time.
func (c *Controller) waitFor(ctx context.Context, answers <-chan *activation.Record, namespace string, id activation.ID) *activation.Record {
	select {
	case r := <-answers:
		if r != nil {
			return r
		}
	case <-ctx.Done():
		return nil
	}
	for {
		if r, err := c.cfg.DB.Record(ctx, namespace, id); err == nil {
			return r
		}
		if !retry.Sleep(ctx, poll) {
			return nil
		}
	}
}

func isArray(payload json.RawMessage) bool { return len(payload) > 0 && payload[0] == '[' }

// parametersOf reads a payload as parameters. None and an array have none.
func parametersOf(payload json.RawMessage) (entity.Parameters, error) {
	if len(payload) == 0 || isArray(payload) {
		return nil, nil
	}
	members, err := activation.Members(payload)
	if err != nil {
		return nil, fmt.Errorf("read payload: %w", err)
	}
	p := make(entity.Parameters, 0, len(members))
	for _, m := range members {
		p = append(p, activation.Parameter{Key: m.Key, Value: m.Value})
	}
	return p, nil
}

func initArgs(p entity.Parameters) []string {
	names := []string{}
	for _, one := range p {
		if one.Init {
			names = append(names, one.Key)
		}
	}
	return names
}
