package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/entity"
)

// accounting counts what a composition ran; nested compositions share it, so
// that the limits hold for the whole.
type accounting struct {
	components int
	conductors int
	atoms      int
}

// composition is the account of one running composition: a conductor action
// that is asked again and again which action comes next.
type composition struct {
	c        *Controller
	call     Call
	id       activation.ID
	cause    activation.ID
	start    int64
	duration int64
	memory   int
	logs     []string
	state    json.RawMessage // what the conductor wants back at its next turn
	trans    activation.TransID
	count    *accounting
}

// runComposition runs a composition from the door and stores its record.
func (c *Controller) runComposition(ctx context.Context, call Call, id activation.ID) *activation.Record {
	return c.nestedComposition(ctx, call, id, "", &accounting{})
}

func (c *Controller) nestedComposition(ctx context.Context, call Call, id, cause activation.ID, count *accounting) *activation.Record {
	s := &composition{
		c: c, call: call, id: id, cause: cause, start: now(), memory: call.Action.Limits.MemoryMB,
		logs: []string{}, trans: call.TransID, count: count,
	}
	r := s.record(s.run(ctx))
	c.store(ctx, call.User, r)
	return r
}

// run alternates between conductor and components until the conductor names no
// further action.
func (s *composition) run(ctx context.Context) activation.Response {
	payload := s.call.Payload
	for {
		if s.count.conductors > 2*sequenceLimit {
			return activation.ErrorResponse(activation.StatusApplicationError, "Too many actions in the composition.")
		}
		s.count.conductors++
		r, failure := s.step(ctx, s.conductorCall(payload))
		if failure != nil {
			return *failure
		}
		turn := readTurn(r.Response)
		s.state = turn.state
		if turn.action == nil || r.Response.StatusCode != activation.StatusSuccess {
			return activation.Response{StatusCode: r.Response.StatusCode, Result: turn.result()}
		}
		answer, failure := s.component(ctx, turn)
		if failure != nil {
			return *failure
		}
		payload = answer
	}
}

// turn is what a conductor answered.
type turn struct {
	action json.RawMessage // the next action, nil at the end
	params json.RawMessage
	state  json.RawMessage
	whole  json.RawMessage
}

func readTurn(r activation.Response) turn {
	var t struct{ Action, Params, State json.RawMessage }
	_ = json.Unmarshal(r.Result, &t) // no object: it names nothing, and is the result
	return turn{t.Action, boxed("value", t.Params), boxed("state", t.State), r.Result}
}

// boxed wraps what is not an object into one, as its place needs one.
func boxed(name string, v json.RawMessage) json.RawMessage {
	if v == nil || v[0] == '{' {
		return v
	}
	return objectOf([]activation.Member{{Key: name, Value: v}})
}

func (t turn) result() json.RawMessage {
	if t.params != nil {
		return t.params
	}
	return t.whole
}

// conductorCall is the conductor's next turn: its state laid over what it is
// told.
func (s *composition) conductorCall(payload json.RawMessage) Call {
	if s.state != nil {
		payload, _ = merge(fields(payload), s.state) // an object since boxed
	}
	return Call{User: s.call.User, Action: s.call.Action, Payload: payload, Trace: s.call.Trace}
}

// fields reads an object's members as parameters; what is no object has none.
func fields(object json.RawMessage) entity.Parameters {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	members, _ := activation.Members(object)
	p := make(entity.Parameters, 0, len(members))
	for _, m := range members {
		p = append(p, activation.Parameter{Key: m.Key, Value: m.Value})
	}
	return p
}

// step runs one action for the composition and notes what it used. It waits as
// long as the action may take.
func (s *composition) step(ctx context.Context, call Call) (*activation.Record, *activation.Response) {
	s.trans = s.trans.Child(NewTransID(), now())
	call.TransID = s.trans
	call.Wait = time.Duration(call.Action.Limits.TimeoutMillis)*time.Millisecond + componentGrace
	out, err := s.c.stepInside(ctx, call, s)
	if err != nil {
		s.c.log.Warn("composition failed", "action", call.Action.ID(), "err", err)
		r := activation.ErrorResponse(activation.StatusWhiskError, "Activation failure during composition.")
		return nil, &r
	}
	s.logs = append(s.logs, string(out.ID))
	if out.Record == nil {
		r := activation.ErrorResponse(activation.StatusWhiskError, "Timeout reached when retrieving activation "+string(out.ID)+" during composition.")
		return nil, &r
	}
	if out.Record.Duration != nil {
		s.duration += *out.Record.Duration
	}
	s.memory = max(s.memory, memoryOf(out.Record, call.Action))
	return out.Record, nil
}

// stepInside tells the composition's own conductor, which is run as an action,
// from a component that may be a composition too.
func (c *Controller) stepInside(ctx context.Context, call Call, s *composition) (Outcome, error) {
	conducts := entity.Truthy(call.Action.Annotations, "conductor")
	switch {
	case call.Action == s.call.Action || !conducts && !call.Action.Exec.IsSequence():
		return c.invoke(ctx, call, s.id)
	case conducts:
		id := NewID()
		return Outcome{id, c.nestedComposition(ctx, call, id, s.id, s.count)}, nil
	}
	id := NewID()
	return Outcome{id, c.nestedSequence(ctx, call, id, s.id, &s.count.atoms)}, nil
}

// component runs the action that the conductor named and gives what the
// conductor is told next: its result, or why there is none.
func (s *composition) component(ctx context.Context, t turn) (json.RawMessage, *activation.Response) {
	complain := func(format string, args ...any) (json.RawMessage, *activation.Response) {
		return activation.ErrorResponse(0, fmt.Sprintf(format, args...)).Result, nil
	}
	var name string
	if json.Unmarshal(t.action, &name) != nil {
		return complain("Failed to parse action name from json value %s during composition.", t.action)
	}
	home := s.call.User.Namespace.Name
	ref, err := resolveName(name, home)
	if err != nil {
		return complain("Failed to parse action name from json value %s during composition.", t.action)
	}
	if s.count.components >= sequenceLimit {
		return complain("Too many actions in the composition.")
	}
	a, err := s.c.cfg.Catalog.Resolve(ctx, ref)
	if err != nil {
		return complain("Failed to resolve action with name '%s' during composition.", ref)
	}
	s.count.components++
	r, failure := s.step(ctx, Call{User: s.call.User, Action: a, Payload: t.params, Trace: s.call.Trace})
	if failure != nil {
		return nil, failure
	}
	return r.Response.Result, nil
}

// resolveName reads the name of an action as a conductor writes it: "name",
// "package/name" or a full name with a slash before.
func resolveName(name, home string) (entity.Ref, error) {
	if name != "" && name[0] == '/' {
		return entity.ParseRef(name, home)
	}
	return entity.ParseRef("/"+home+"/"+name, home)
}

func (s *composition) record(response activation.Response) *activation.Record {
	a := s.call.Action
	r := s.c.newRecord(s.call, s.id, s.start, s.duration, response, s.logs)
	r.Annotations.AddBool("topmost", s.cause == "")
	r.Annotations.AddText("path", a.ID())
	r.Annotations.AddNumber("waitTime", s.start-s.call.TransID.StartMillis())
	r.Annotations.AddBool("conductor", true)
	r.Annotations.AddText("kind", entity.SequenceKind)
	if s.cause != "" {
		r.Annotations.AddText("causedBy", entity.SequenceKind)
		r.Cause = s.cause
	}
	addBinding(r, a)
	addLimits(r, a, s.memory)
	return r
}
