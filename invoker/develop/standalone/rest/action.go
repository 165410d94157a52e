package rest

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// getAction answers with the action as it would run: the parameters of its
// package and of a binding laid under its own.
func (r *request) getAction() error {
	if err := r.mayUse(r.ref); err != nil {
		return err
	}
	withCode := r.flag("code", true)
	if r.err != nil {
		return r.err
	}
	a, err := r.DB.Resolve(r.Context(), r.ref)
	if err != nil {
		return err
	}
	if !withCode {
		return r.sendJSON(a.AnswerBare(), nil)
	}
	return r.sendJSON(r.actionAnswer(a.Entity))
}

// actionAnswer is the action with its code. An action whose code is lost can
// still be deleted.
func (r *request) actionAnswer(a *entity.Entity) ([]byte, error) {
	if a.Exec.Code == nil {
		err := r.DB.LoadCode(r.Context(), a)
		if err != nil && (r.Method != http.MethodDelete || !errors.Is(err, couchdb.ErrNotFound)) {
			return nil, err
		}
	}
	return a.Answer(), nil
}

// inPackage refuses a change to an action in a binding, or in a package that is
// not there.
func (r *request) inPackage() error {
	if r.ref.Package() == "" {
		return nil
	}
	pkg, err := r.DB.Entity(r.Context(), entity.Package, r.ref.PackageRef())
	if err == nil && pkg.Bound() != nil {
		return entity.Bad("Operation not permitted on package binding.")
	}
	return err
}

func (r *request) checkSequence(made, old *entity.Entity) error {
	if made.Exec == old.Exec || !made.Exec.IsSequence() {
		return nil
	}
	_, err := r.countActions(made.Exec.Components, 0)
	return err
}

// countActions returns the number of actions that a sequence runs. It returns an error
// if the sequence is too long, contains itself, or names a missing action.
func (r *request) countActions(components []string, depth int) (int, error) {
	tooMany := entity.Bad("Too many actions in the sequence.")
	if len(components) > controller.MaxSequence || depth > controller.MaxSequence {
		return 0, tooMany
	}
	total := 0
	for _, name := range components {
		ref, err := entity.ParseRef(name, r.user.Namespace.Name)
		if err != nil {
			return 0, err
		}
		if err := r.mayUse(ref); err != nil {
			return 0, err
		}
		a, err := r.DB.Resolve(r.Context(), ref)
		switch {
		case ref == r.ref || err == nil && a.Ref() == r.ref:
			return 0, entity.Bad("Sequence may not refer to itself.")
		case couchdb.Absent(err):
			return 0, entity.Bad("Sequence component does not exist.")
		case err != nil:
			return 0, err
		}
		n := 1
		if a.Exec.IsSequence() {
			if n, err = r.countActions(a.Exec.Components, depth+1); err != nil {
				return 0, err
			}
		}
		if total += n; total > controller.MaxSequence {
			return 0, tooMany
		}
	}
	return total, nil
}

// maxPayload is the most a call's arguments may have.
const maxPayload = 1 << 20

// activationHeader names the activation that a request led to.
const activationHeader = "x-openwhisk-activation-id"

func (r *request) invokeAction() error {
	blocking, resultOnly, wait := r.flag("blocking", false), r.flag("result", false), r.timeout(controller.MaxWait)
	payload := r.payload()
	if r.err != nil {
		return r.err
	}
	if !blocking {
		wait = 0
	}
	if err := r.mayUse(r.ref); err != nil {
		return err
	}
	a, err := r.DB.Resolve(r.Context(), r.ref)
	if err != nil {
		return err
	}
	var args map[string]json.RawMessage
	_ = json.Unmarshal(payload, &args) // an array has no argument names
	if err := checkNames(args, a); err != nil {
		return err
	}
	out, err := r.Controller.Invoke(r.Context(), controller.Call{
		User: *r.user, TransID: r.transID, Action: a, Payload: payload, Wait: wait, Trace: traceContext(r.Header),
	})
	if err != nil {
		return err
	}
	return r.outcome(out, resultOnly)
}

// traceContext is a caller's trace as a message has it, by the names that W3C and
// Zipkin give it; nil without one.
func traceContext(h http.Header) json.RawMessage {
	all := map[string]string{}
	for _, name := range []string{"traceparent", "tracestate", "X-B3-TraceId", "X-B3-SpanId", "X-B3-Sampled"} {
		if v := h.Get(name); v != "" {
			all[name] = v
		}
	}
	if len(all) == 0 {
		return nil
	}
	text, _ := json.Marshal(all) // texts alone
	return text
}

// payload reads the arguments of a call: an object, an array, or nothing.
func (r *request) payload() json.RawMessage {
	body := r.body()
	switch {
	case r.err != nil || len(body) == 0:
		return nil
	case len(body) > maxPayload:
		r.fail(entity.Refuse(http.StatusRequestEntityTooLarge, "Request larger than allowed: %d > %d bytes.", len(body), maxPayload))
		return nil
	}
	value, err := activation.Canonical(body)
	switch {
	case err != nil:
		r.fail(entity.Malformed("%v", err))
	case value[0] != '{' && value[0] != '[':
		r.fail(entity.Malformed("Object expected"))
	}
	return value
}

// checkNames refuses arguments that would replace a parameter of a final action.
func checkNames(args map[string]json.RawMessage, a *couchdb.Resolved) error {
	final := a.Annotations.IsTrue("final")
	for name := range args {
		if final && a.Parameters.Defines(name) {
			return entity.Bad("Request defines parameters that are not allowed (e.g., reserved properties).")
		}
	}
	return nil
}

// outcome answers with the outcome of an activation, or with its id if there is none
// yet.
func (r *request) outcome(out controller.Outcome, resultOnly bool) error {
	if out.Record == nil {
		return r.accepted(out.ID)
	}
	r.w.Header().Set(activationHeader, string(out.ID))
	status := http.StatusOK
	switch out.Record.Response.StatusCode {
	case activation.StatusApplicationError, activation.StatusDeveloperError:
		status = http.StatusBadGateway
	case activation.StatusWhiskError:
		status = http.StatusInternalServerError
	}
	result := out.Record.Response.Result
	if resultOnly || len(result) > 0 && result[0] == '[' {
		if result == nil {
			result = json.RawMessage("{}")
		}
		return r.send(status, "application/json", result)
	}
	return r.json(status, extend(out.Record))
}

func (r *request) accepted(id activation.ID) error {
	r.w.Header().Set(activationHeader, string(id))
	return r.json(http.StatusAccepted, map[string]activation.ID{"activationId": id})
}
