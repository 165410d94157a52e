package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// compound is a running sequence or composition: several activations and one
// record that lists them.
type compound struct {
	c        *Controller
	call     Call
	id       activation.ID
	cause    activation.ID // the enclosing compound, empty at the top
	start    int64
	duration int64              // of the parts, without the gaps
	memory   int                // the most any part had
	logs     []string           // ids of the parts
	trans    activation.TransID // whose child the next part's is
	count    *counts
}

// counts holds the numbers of a compound together with its nested compounds, because the
// limits apply to the whole.
type counts struct {
	actions    int // of sequences
	components int // of compositions
	conductors int // runs of conductors
}

// isCompound reports whether the controller runs an action, and not an invoker.
func isCompound(a *couchdb.Resolved) bool {
	return a.Exec.IsSequence() || a.Annotations.Truthy("conductor")
}

// runCompound runs a sequence or composition and stores its record.
func (c *Controller) runCompound(ctx context.Context, call Call, id, cause activation.ID, count *counts) *activation.Record {
	s := &compound{c: c, call: call, id: id, cause: cause, start: now(), logs: []string{}, trans: call.TransID, count: count}
	var response activation.Response
	if call.Action.Exec.IsSequence() {
		response = s.runSequence(ctx)
	} else {
		s.memory = call.Action.Limits.MemoryMB
		response = s.runComposition(ctx)
	}
	r := s.record(response)
	c.store(ctx, call.User, r)
	return r
}

// sequenceFailed is the error of a sequence whose component did not start.
const sequenceFailed = "Sequence failed."

// runPart runs one action for the compound and waits as long as it may take. It
// did not run well if it did not start, or no result came.
func (s *compound) runPart(ctx context.Context, a *couchdb.Resolved, payload json.RawMessage) (r activation.Response, ran bool) {
	call := Call{
		User: s.call.User, TransID: s.trans.Child(NewTransID(), now()), Action: a, Payload: payload, Trace: s.call.Trace,
		Wait: time.Duration(a.Limits.TimeoutMillis)*time.Millisecond + componentGrace,
	}
	failed, late := sequenceFailed, "Timeout reached when retrieving activation %s for sequence component."
	if !s.call.Action.Exec.IsSequence() {
		s.trans = call.TransID
		failed, late = "Activation failure during composition.", "Timeout reached when retrieving activation %s during composition."
	}
	out, err := s.invokePart(ctx, call)
	if err != nil {
		s.c.log.Warn("part of a sequence or composition was not run", "action", a.ID, "error", err)
		return activation.ErrorResponse(activation.StatusWhiskError, failed), false
	}
	s.logs = append(s.logs, string(out.ID))
	if out.Record == nil {
		return activation.ErrorResponse(activation.StatusWhiskError, fmt.Sprintf(late, out.ID)), false
	}
	if out.Record.Duration != nil {
		s.duration += *out.Record.Duration
	}
	s.memory = max(s.memory, memoryOf(out.Record, a))
	return out.Record.Response, true
}

// invokePart runs a part that is a compound itself, or an action, as which a
// composition's own conductor is run.
func (s *compound) invokePart(ctx context.Context, call Call) (Outcome, error) {
	nested, sequence := isCompound(call.Action) && call.Action != s.call.Action, s.call.Action.Exec.IsSequence()
	if !nested {
		if sequence {
			s.count.actions++
		}
		return s.c.invoke(ctx, call, s.id)
	}
	count := s.count
	if sequence && !call.Action.Exec.IsSequence() {
		count = &counts{} // the limit of a composition is its own
	}
	id := newID()
	return Outcome{id, s.c.runCompound(ctx, call, id, s.id, count)}, nil
}

// memoryOf is the memory in an activation's record: for a nested sequence the
// most of its components.
func memoryOf(r *activation.Record, a *couchdb.Resolved) int {
	limits, _ := r.Annotations.Get("limits")
	l := struct{ Memory int }{a.Limits.MemoryMB}
	_ = json.Unmarshal(limits, &l) // none: the action's
	return l.Memory
}

func (s *compound) record(response activation.Response) *activation.Record {
	a := s.call.Action
	r := &activation.Record{
		ActivationID: s.id, Cause: s.cause, Namespace: s.call.User.Namespace.Name, Name: a.Name, Subject: s.call.User.Subject,
		Version: a.Version, Start: s.start, End: now(), Duration: &s.duration, Response: response, Logs: s.logs,
	}
	r.Annotations.AddBool("topmost", s.cause == "")
	r.Annotations.AddText("path", a.ID)
	r.Annotations.AddNumber("waitTime", s.start-s.call.TransID.StartMillis())
	if !a.Exec.IsSequence() {
		r.Annotations.AddBool("conductor", true)
	}
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

// runSequence runs the components one after the other. Each gets the answer of the
// previous one as its payload. The first component without success ends the sequence.
func (s *compound) runSequence(ctx context.Context) activation.Response {
	// A sequence does not have arguments: its parameters only repeat its components
	// (Actions.scala, makeWhiskAction).
	response := activation.Response{Result: s.call.Payload}
	for _, name := range s.call.Action.Exec.Components {
		if s.count.actions >= MaxSequence {
			return activation.ErrorResponse(activation.StatusApplicationError, "Too many actions in the sequence.")
		}
		response = s.runComponent(ctx, name, response.Result)
		if response.StatusCode != activation.StatusSuccess {
			break
		}
	}
	return response
}

func (s *compound) runComponent(ctx context.Context, name string, payload json.RawMessage) activation.Response {
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
	r, _ := s.runPart(ctx, a, payload)
	return r
}

// runComposition alternates between the conductor, which names the action that
// comes next, and that action, until the conductor names none.
func (s *compound) runComposition(ctx context.Context) activation.Response {
	payload, state := s.call.Payload, json.RawMessage(nil)
	for s.count.conductors <= 2*MaxSequence {
		s.count.conductors++
		if state != nil { // an object that is merged into the conductor's payload
			before, _ := parametersOf(payload) // nil unless the payload is an object
			over, _ := parametersOf(state)
			payload = over.Over(before).Object()
		}
		r, _ := s.runPart(ctx, s.call.Action, payload)
		answer := readConductorAnswer(r)
		if answer.action == nil || r.StatusCode != activation.StatusSuccess {
			return activation.Response{StatusCode: r.StatusCode, Result: answer.result}
		}
		next, ran := s.runNext(ctx, answer)
		if !ran {
			return next
		}
		payload, state = next.Result, answer.state
	}
	return activation.ErrorResponse(activation.StatusApplicationError, "Too many actions in the composition.")
}

// runNext runs the action that the conductor named. The conductor gets its result
// next, or why there is none.
func (s *compound) runNext(ctx context.Context, answer conductorAnswer) (r activation.Response, ran bool) {
	refuse := func(format string, args ...any) (activation.Response, bool) {
		return activation.ErrorResponse(0, fmt.Sprintf(format, args...)), true
	}
	ref, err := s.named(answer.action)
	if err != nil {
		return refuse("Failed to parse action name from json value %s during composition.", answer.action)
	}
	if s.count.components >= MaxSequence {
		return refuse("Too many actions in the composition.")
	}
	a, err := s.c.cfg.DB.Resolve(ctx, ref)
	if err != nil {
		return refuse("Failed to resolve action with name '%s' during composition.", ref)
	}
	s.count.components++
	return s.runPart(ctx, a, answer.params)
}

// named reads the name of an action as a conductor writes it: "name",
// "package/name" or a full name with a slash before.
func (s *compound) named(text json.RawMessage) (entity.Ref, error) {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return entity.Ref{}, err
	}
	if !strings.HasPrefix(name, "/") {
		name = "/_/" + name
	}
	return entity.ParseRef(name, s.call.User.Namespace.Name)
}

// conductorAnswer is the answer of a conductor.
type conductorAnswer struct {
	action json.RawMessage // the next action, nil at the end
	params json.RawMessage // parameters of the next action
	state  json.RawMessage // returned to the conductor at its next call
	result json.RawMessage // of the composition, if this is the end
}

func readConductorAnswer(r activation.Response) conductorAnswer {
	var t struct{ Action, Params, State json.RawMessage }
	_ = json.Unmarshal(r.Result, &t) // no object: it names nothing, and is the result
	answer := conductorAnswer{t.Action, wrapped("value", t.Params), wrapped("state", t.State), r.Result}
	if answer.params != nil {
		answer.result = answer.params
	}
	return answer
}

// wrapped makes an object of a value that is none, where an object is needed.
func wrapped(name string, v json.RawMessage) json.RawMessage {
	if v == nil || v[0] == '{' {
		return v
	}
	return entity.Parameters{{Key: name, Value: v}}.Object()
}
