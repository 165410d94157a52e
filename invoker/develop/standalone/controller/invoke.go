package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// Call asks for one activation.
type Call struct {
	User    activation.Identity
	TransID activation.TransID
	Action  *catalog.Resolved
	Payload json.RawMessage // an object or an array; nil for none
	Wait    time.Duration   // 0: do not wait for the result
	Trace   json.RawMessage // the caller's trace context; nil for none
}

// Outcome is what the caller gets: the record, or only an id when there is no
// result yet or the caller did not wait.
type Outcome struct {
	ID     activation.ID
	Record *activation.Record
}

// Invoke runs an action, a sequence or a composition.
func (c *Controller) Invoke(ctx context.Context, call Call) (Outcome, error) {
	c.awaitInvoker(ctx)
	if isCompound(call.Action) {
		return c.invokeCompound(ctx, call)
	}
	return c.invoke(ctx, call, "")
}

// Starting reports whether the invoker of this process has yet to become
// healthy.
func (c *Controller) Starting() bool {
	if c.cfg.Ready == nil {
		return false
	}
	select {
	case <-c.cfg.Ready:
		return false
	default:
		return true
	}
}

// awaitInvoker lets a call wait while the invoker starts.
func (c *Controller) awaitInvoker(ctx context.Context) {
	if !c.Starting() {
		return
	}
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case <-c.cfg.Ready:
	case <-late.C:
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
}

// invokeCompound runs a sequence or composition, which goes on when the caller
// has left.
func (c *Controller) invokeCompound(ctx context.Context, call Call) (Outcome, error) {
	if _, ok := c.fleet.pick(""); !ok {
		return Outcome{}, ErrNoInvoker
	}
	if err := c.begin(); err != nil {
		return Outcome{}, err
	}
	id := NewID()
	finished := make(chan *activation.Record, 1)
	go func() {
		defer c.tasks.Done()
		finished <- c.runCompound(c.ctx, call, id, "", &counts{})
	}()
	if call.Wait <= 0 {
		return Outcome{ID: id}, nil
	}
	timer := time.NewTimer(call.Wait)
	defer timer.Stop()
	select {
	case r := <-finished:
		return Outcome{ID: id, Record: r}, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return Outcome{ID: id}, nil
}

// invoke runs one action on an invoker. cause is the sequence or composition
// that it is part of, empty for none.
func (c *Controller) invoke(ctx context.Context, call Call, cause activation.ID) (Outcome, error) {
	a := call.Action
	content, err := merge(a.Parameters, call.Payload)
	if err != nil {
		return Outcome{}, err
	}
	invoker, ok := c.fleet.pick(call.User.Namespace.Name + "/" + a.ID())
	if !ok {
		return Outcome{}, ErrNoInvoker
	}
	id := NewID()
	m := activation.Message{
		TransID:      call.TransID,
		Action:       activation.ActionRef{Path: a.Namespace, Name: a.Name, Version: a.Version.String(), Binding: a.Binding},
		Revision:     a.Rev,
		User:         call.User,
		ActivationID: id,
		Controller:   c.cfg.ID,
		Blocking:     call.Wait > 0,
		Content:      content,
		InitArgs:     initArgs(a.Parameters),
		LockedArgs:   lockedArgs(a.Parameters, call.Payload),
		Cause:        cause,
		TraceContext: call.Trace,
	}
	f := c.flights.add(id, invoker, call.Wait > 0, forcedAfter(a), func() { c.giveUp(id) })
	if err := c.cfg.Bus.Publish(ctx, activation.Instance{ID: invoker}.Topic(), m.Encode()); err != nil {
		c.flights.drop(id)
		return Outcome{}, fmt.Errorf("send activation of %s: %w", a.ID(), err)
	}
	if call.Wait <= 0 {
		return Outcome{ID: id}, nil
	}
	defer c.flights.forget(id)
	return Outcome{id, c.waitFor(ctx, f, call.User.Namespace.Name, id, call.Wait)}, nil
}

// forcedAfter is when an activation counts as lost: twice its time limit, of
// which a minute is the least, and a minute (ShardingContainerPoolBalancer).
func forcedAfter(a *catalog.Resolved) time.Duration {
	limit := max(time.Duration(a.Limits.TimeoutMillis)*time.Millisecond, time.Minute)
	return 2*limit + time.Minute
}

func (c *Controller) giveUp(id activation.ID) {
	if invoker, news := c.flights.free(id); news {
		c.log.Warn("an activation was never acknowledged", "activation", string(id), "invoker", invoker)
		c.outcome(invoker, timedOut)
	}
}

// Polls of the database for a result. It is asked rarely while an ack may
// still come, and at once when the ack says that only the database has it.
const (
	rarePoll  = 15 * time.Second
	firstPoll = 50 * time.Millisecond
	lastPoll  = 2 * time.Second
)

// waitFor returns the record of a flight, nil when there is none in time.
func (c *Controller) waitFor(ctx context.Context, f *flight, namespace string, id activation.ID, wait time.Duration) *activation.Record {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	every := rarePoll
	poll := time.NewTimer(every)
	defer poll.Stop()
	for {
		select {
		case r := <-f.answers:
			if r != nil {
				return r
			}
			every = firstPoll
		case <-poll.C:
			if r, err := c.cfg.Catalog.Record(ctx, namespace, id); err == nil {
				return r
			}
			if every < rarePoll {
				every = min(2*every, lastPoll)
			}
		case <-timeout.C:
			return nil
		case <-ctx.Done():
			return nil
		}
		poll.Reset(every)
	}
}

// merge lays the payload over the parameters. An array has no names to merge:
// it is passed on as it is.
func merge(p entity.Parameters, payload json.RawMessage) (json.RawMessage, error) {
	if len(payload) > 0 && payload[0] == '[' {
		return payload, nil
	}
	members := make([]activation.Member, 0, len(p))
	at := make(map[string]int, len(p))
	set := func(key string, value json.RawMessage) {
		if i, ok := at[key]; ok {
			members[i].Value = value
			return
		}
		at[key] = len(members)
		members = append(members, activation.Member{Key: key, Value: value})
	}
	for _, one := range p {
		set(one.Key, one.Value)
	}
	if len(payload) > 0 {
		given, err := activation.Members(payload)
		if err != nil {
			return nil, fmt.Errorf("read payload: %w", err)
		}
		for _, m := range given {
			set(m.Key, m.Value)
		}
	}
	return objectOf(members), nil
}

func objectOf(members []activation.Member) json.RawMessage {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(activation.AppendString(out, m.Key), ':')
		out = append(out, m.Value...)
	}
	return append(out, '}')
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

// lockedArgs names the encrypted parameters that the call does not replace.
func lockedArgs(p entity.Parameters, payload json.RawMessage) []activation.LockedArg {
	given := map[string]bool{}
	if len(payload) > 0 && payload[0] == '{' {
		members, _ := activation.Members(payload) // merge has complained already
		for _, m := range members {
			given[m.Key] = true
		}
	}
	var locked []activation.LockedArg
	for _, one := range p {
		if one.Encryption != "" && !given[one.Key] {
			locked = append(locked, activation.LockedArg{Name: one.Key, Algorithm: one.Encryption})
		}
	}
	return locked
}
