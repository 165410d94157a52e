package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// sequence is a running sequence: several activations and one record that lists them.
type sequence struct {
	c        *Controller
	call     Call
	id       activation.ID
	cause    activation.ID // the enclosing sequence, empty at the top
	start    int64
	duration int64              // of the components, without the gaps
	memory   int                // the most that any component had
	logs     []string           // ids of the components
	trans    activation.TransID // the next component's is its child
	ran      *int               // actions of the outermost sequence, those of nested ones included
}

// runSequence runs a sequence and stores its record.
func (c *Controller) runSequence(ctx context.Context, call Call, id, cause activation.ID, ran *int) *activation.Record {
	s := &sequence{c: c, call: call, id: id, cause: cause, start: now(), logs: []string{}, trans: call.TransID, ran: ran}
	r := s.record(s.run(ctx))
	c.store(ctx, call.User, r)
	return r
}

// sequenceFailed is the error of a sequence whose component did not start.
const sequenceFailed = "Sequence failed."

// runPart runs one action of the sequence and waits as long as it may take.
func (s *sequence) runPart(ctx context.Context, a *couchdb.Resolved, payload json.RawMessage) activation.Response {
	out, err := s.invokePart(ctx, Call{
		User: s.call.User, TransID: s.trans.Child(NewTransID(), now()), Action: a, Payload: payload, Trace: s.call.Trace,
		Wait: time.Duration(a.Limits.TimeoutMillis)*time.Millisecond + componentGrace,
	})
	if err != nil {
		s.c.log.Warn("part of a sequence was not run", "action", a.ID, "error", err)
		return activation.ErrorResponse(activation.StatusWhiskError, sequenceFailed)
	}
	s.logs = append(s.logs, string(out.ID))
	if out.Record == nil {
		return activation.ErrorResponse(activation.StatusWhiskError,
			fmt.Sprintf("Timeout reached when retrieving activation %s for sequence component.", out.ID))
	}
	if out.Record.Duration != nil {
		s.duration += *out.Record.Duration
	}
	s.memory = max(s.memory, memoryOf(out.Record, a))
	return out.Record.Response
}

// invokePart runs a component, which may be a sequence itself.
func (s *sequence) invokePart(ctx context.Context, call Call) (Outcome, error) {
	if !call.Action.Exec.IsSequence() {
		*s.ran++
		return s.c.invoke(ctx, call, s.id)
	}
	id := newID()
	return Outcome{id, s.c.runSequence(ctx, call, id, s.id, s.ran)}, nil
}

// memoryOf is the memory in an activation's record: for a nested sequence the
// most of its components.
func memoryOf(r *activation.Record, a *couchdb.Resolved) int {
	limits, _ := r.Annotations.Get("limits")
	l := struct{ Memory int }{a.Limits.MemoryMB}
	_ = json.Unmarshal(limits, &l) // none: the action's
	return l.Memory
}

func (s *sequence) record(response activation.Response) *activation.Record {
	a := s.call.Action
	r := &activation.Record{
		ActivationID: s.id, Cause: s.cause, Namespace: s.call.User.Namespace.Name, Name: a.Name, Subject: s.call.User.Subject,
		Version: a.Version, Start: s.start, End: now(), Duration: &s.duration, Response: response, Logs: s.logs,
	}
	r.Annotations.AddBool("topmost", s.cause == "")
	r.Annotations.AddText("path", a.ID)
	r.Annotations.AddNumber("waitTime", s.start-s.call.TransID.StartMillis())
	r.Annotations.AddText("kind", entity.SequenceKind)
	if s.cause != "" {
		r.Annotations.AddText("causedBy", entity.SequenceKind)
	}
	if a.Binding != "" {
		r.Annotations.AddText("binding", a.Binding)
	}
	if s.memory > 0 {
		limits := a.Limits.Limits
		limits.MemoryMB = s.memory
		r.Annotations = append(r.Annotations, activation.Annotation{Key: "limits", Value: limits.JSON()})
	}
	return r
}

// store writes a record unless its namespace keeps none.
func (c *Controller) store(ctx context.Context, user activation.Identity, r *activation.Record) {
	if !user.Limits.StoresActivations() {
		return
	}
	if err := c.cfg.DB.SaveRecord(ctx, r, now()); err != nil {
		c.log.Error("record was not stored", "activation", string(r.ActivationID), "error", err)
	}
}

// run runs the components one after the other. Each gets the answer of the previous one
// as its payload. The first component without success ends the sequence.
func (s *sequence) run(ctx context.Context) activation.Response {
	// A sequence does not have arguments: its parameters only repeat its components
	// (Actions.scala, makeWhiskAction).
	response := activation.Response{Result: s.call.Payload}
	for _, name := range s.call.Action.Exec.Components {
		if *s.ran >= MaxSequence {
			return activation.ErrorResponse(activation.StatusApplicationError, "Too many actions in the sequence.")
		}
		response = s.runComponent(ctx, name, response.Result)
		if response.StatusCode != activation.StatusSuccess {
			break
		}
	}
	return response
}

func (s *sequence) runComponent(ctx context.Context, name string, payload json.RawMessage) activation.Response {
	ref, err := entity.ParseRef(name, s.call.User.Namespace.Name)
	var a *couchdb.Resolved
	if err == nil {
		a, err = s.c.cfg.DB.Resolve(ctx, ref)
	}
	var refused *entity.Refusal
	switch {
	case couchdb.Absent(err), errors.As(err, &refused):
		return activation.ErrorResponse(activation.StatusApplicationError, "Sequence component does not exist.")
	case err != nil:
		s.c.log.Error("sequence component was not read", "component", name, "error", err)
		return activation.ErrorResponse(activation.StatusWhiskError, sequenceFailed)
	}
	return s.runPart(ctx, a, payload)
}
