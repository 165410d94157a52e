package controller

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/entity"
)

// sequence is the account of one running sequence.
type sequence struct {
	c        *Controller
	call     Call
	id       activation.ID
	cause    activation.ID // the enclosing sequence or composition, empty at the top
	start    int64
	duration int64 // of the components, without the gaps
	memory   int   // the most any component had
	logs     []string
	atoms    *int // actions run so far, nested sequences included
}

// runSequence runs a sequence from the door and stores its record.
func (c *Controller) runSequence(ctx context.Context, call Call, id activation.ID) *activation.Record {
	atoms := 0
	return c.nestedSequence(ctx, call, id, "", &atoms)
}

func (c *Controller) nestedSequence(ctx context.Context, call Call, id, cause activation.ID, atoms *int) *activation.Record {
	s := &sequence{c: c, call: call, id: id, cause: cause, start: now(), logs: []string{}, atoms: atoms}
	response := s.run(ctx)
	r := s.record(response)
	c.store(ctx, call.User, r)
	return r
}

// run executes the components one after the other, each on what the last one
// answered. The first that does not succeed ends it.
func (s *sequence) run(ctx context.Context) activation.Response {
	// A sequence has no arguments of its own: its parameters only repeat its
	// components (Actions.scala, makeWhiskAction).
	response := activation.Response{Result: s.call.Payload}
	for _, name := range s.call.Action.Exec.Components {
		if *s.atoms >= sequenceLimit {
			return activation.ErrorResponse(activation.StatusApplicationError, "Too many actions in the sequence.")
		}
		r, failure := s.component(ctx, name, response.Result)
		if failure != nil {
			return *failure
		}
		response = r.Response
		if response.StatusCode != activation.StatusSuccess {
			break
		}
	}
	return response
}

// component runs one component and notes what it used.
func (s *sequence) component(ctx context.Context, name string, payload json.RawMessage) (*activation.Record, *activation.Response) {
	fail := func(status int, text string) (*activation.Record, *activation.Response) {
		r := activation.ErrorResponse(status, text)
		return nil, &r
	}
	ref, err := entity.ParseRef(name, s.call.User.Namespace.Name)
	if err != nil {
		return fail(activation.StatusApplicationError, "Sequence component does not exist.")
	}
	a, err := s.c.cfg.Catalog.Resolve(ctx, ref)
	if errors.Is(err, couchdb.ErrNotFound) || errors.Is(err, entity.ErrOtherKind) {
		return fail(activation.StatusApplicationError, "Sequence component does not exist.")
	}
	if err != nil {
		s.c.log.Error("sequence component was not read", "component", name, "err", err)
		return fail(activation.StatusWhiskError, "Sequence failed.")
	}
	call := Call{
		User: s.call.User, TransID: s.call.TransID.Child(NewTransID(), now()), Action: a, Payload: payload,
		Wait:  time.Duration(a.Limits.TimeoutMillis)*time.Millisecond + componentGrace,
		Trace: s.call.Trace,
	}
	out, err := s.c.runInside(ctx, call, s.id, s.atoms)
	if err != nil {
		s.c.log.Warn("sequence component was not run", "component", name, "err", err)
		return fail(activation.StatusWhiskError, "Sequence failed.")
	}
	s.logs = append(s.logs, string(out.ID))
	if out.Record == nil {
		return fail(activation.StatusWhiskError, "Timeout reached when retrieving activation "+string(out.ID)+" for sequence component.")
	}
	if out.Record.Duration != nil {
		s.duration += *out.Record.Duration
	}
	s.memory = max(s.memory, memoryOf(out.Record, a))
	return out.Record, nil
}

// runInside runs a component of a sequence or composition, which may be a
// sequence or composition itself.
func (c *Controller) runInside(ctx context.Context, call Call, cause activation.ID, atoms *int) (Outcome, error) {
	switch {
	case call.Action.Exec.IsSequence():
		id := NewID()
		return Outcome{id, c.nestedSequence(ctx, call, id, cause, atoms)}, nil
	case entity.Truthy(call.Action.Annotations, "conductor"):
		id := NewID()
		return Outcome{id, c.nestedComposition(ctx, call, id, cause, &accounting{})}, nil
	}
	*atoms++
	return c.invoke(ctx, call, cause)
}

// memoryOf is the memory that an activation's record says it had: for a nested
// sequence the most of its components.
func memoryOf(r *activation.Record, a *catalog.Resolved) int {
	limits, ok := r.Annotations.Get("limits")
	var l struct{ Memory int }
	if !ok || json.Unmarshal(limits, &l) != nil {
		return a.Limits.MemoryMB
	}
	return l.Memory
}

func (s *sequence) record(response activation.Response) *activation.Record {
	a := s.call.Action
	r := s.c.newRecord(s.call, s.id, s.start, s.duration, response, s.logs)
	r.Annotations.AddBool("topmost", s.cause == "")
	r.Annotations.AddText("path", a.ID())
	r.Annotations.AddNumber("waitTime", s.start-s.call.TransID.StartMillis())
	r.Annotations.AddText("kind", entity.SequenceKind)
	if s.cause != "" {
		r.Annotations.AddText("causedBy", entity.SequenceKind)
		r.Cause = s.cause
	}
	addBinding(r, a)
	if s.memory > 0 {
		addLimits(r, a, s.memory)
	}
	return r
}

// newRecord begins the record of something the controller ran itself.
func (c *Controller) newRecord(call Call, id activation.ID, start, duration int64, response activation.Response, logs []string) *activation.Record {
	return &activation.Record{
		ActivationID: id,
		Namespace:    call.User.Namespace.Name,
		Name:         call.Action.Name,
		Subject:      call.User.Subject,
		Version:      call.Action.Version.String(),
		Start:        start,
		End:          now(),
		Duration:     &duration,
		Response:     response,
		Logs:         logs,
	}
}

func addBinding(r *activation.Record, a *catalog.Resolved) {
	if a.Binding != "" {
		r.Annotations.AddText("binding", a.Binding)
	}
}

func addLimits(r *activation.Record, a *catalog.Resolved, memoryMB int) {
	limits := a.Limits
	limits.MemoryMB = memoryMB
	r.Annotations = append(r.Annotations, activation.Annotation{Key: "limits", Value: limits.JSON()})
}

// store writes a record unless its namespace keeps none.
func (c *Controller) store(ctx context.Context, user activation.Identity, r *activation.Record) {
	if keep := user.Limits.StoreActivations; keep != nil && !*keep {
		return
	}
	if err := c.cfg.Catalog.SaveRecord(ctx, r, now()); err != nil {
		c.log.Error("record was not stored", "activation", string(r.ActivationID), "err", err)
	}
}
