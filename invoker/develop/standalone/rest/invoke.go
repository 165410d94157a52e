package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// maxPayload is the most a call's arguments may have.
const maxPayload = 1 << 20

// activationHeader names the activation that a request led to.
const activationHeader = "x-openwhisk-activation-id"

func (h *Handler) invokeAction(r *request) error {
	blocking, resultOnly, wait := r.flag("blocking", false), r.flag("result", false), r.timeout(controller.MaxWait)
	payload := r.payload(true)
	if r.err != nil {
		return r.err
	}
	if !blocking {
		wait = 0
	}
	if err := h.mayUse(r, r.ref); err != nil {
		return err
	}
	a, err := h.cfg.Catalog.Resolve(r.Context(), r.ref)
	if err != nil {
		return err
	}
	if protects(a, payload) {
		return bad(textParameters)
	}
	out, err := h.cfg.Controller.Invoke(r.Context(), controller.Call{
		User: *r.user, TransID: r.transID, Action: a, Payload: payload, Wait: wait, Trace: traceContext(r.Header),
	})
	if err != nil {
		return err
	}
	return r.outcome(out, resultOnly)
}

// traceHeaders are the names that W3C and Zipkin give a caller's trace.
var traceHeaders = []string{"traceparent", "tracestate", "X-B3-TraceId", "X-B3-SpanId", "X-B3-Sampled"}

// traceContext is a caller's trace as a message has it, nil without one.
func traceContext(h http.Header) json.RawMessage {
	all := map[string]string{}
	for _, name := range traceHeaders {
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

// payload reads the arguments of a call: an object, where arrays are allowed
// an array, or nothing.
func (r *request) payload(arrays bool) json.RawMessage {
	body := r.body()
	switch {
	case r.err != nil || len(body) == 0:
		return nil
	case len(body) > maxPayload:
		r.fail(&refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("Request larger than allowed: %d > %d bytes.", len(body), maxPayload)})
		return nil
	}
	value, err := activation.Canonical(body)
	switch {
	case err != nil:
		r.fail(malformedContent(err.Error()))
	case value[0] != '{' && (!arrays || value[0] != '['):
		r.fail(malformedContent("Object expected"))
	}
	return value
}

func malformedContent(text string) *refusal {
	return bad("The request content was malformed:\n" + text)
}

// protects reports whether the payload names a parameter that a final action
// does not let callers replace.
func protects(a *catalog.Resolved, payload json.RawMessage) bool {
	if !a.Annotations.IsTrue("final") || len(payload) == 0 || payload[0] != '{' {
		return false
	}
	members, _ := activation.Members(payload) // checked when it was read
	for _, m := range members {
		if a.Parameters.Defines(m.Key) {
			return true
		}
	}
	return false
}

// outcome answers with what an activation came to, or with its id.
func (r *request) outcome(out controller.Outcome, resultOnly bool) error {
	r.w.Header().Set(activationHeader, string(out.ID))
	if out.Record == nil {
		return r.json(http.StatusAccepted, map[string]activation.ID{"activationId": out.ID})
	}
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
		return r.raw(status, result)
	}
	return r.json(status, extend(out.Record))
}

func (h *Handler) fireTrigger(r *request) error {
	payload := r.payload(false)
	if r.err != nil {
		return r.err
	}
	t, err := h.read(r, entity.Trigger)
	if err != nil {
		return err
	}
	id, fired, err := h.cfg.Controller.Fire(controller.Event{
		User: *r.user, TransID: r.transID, Trigger: t, Payload: payload, Headers: r.headerObject(),
	})
	if err != nil {
		return err
	}
	if !fired {
		return r.empty(http.StatusNoContent)
	}
	r.w.Header().Set(activationHeader, string(id))
	return r.json(http.StatusAccepted, map[string]activation.ID{"activationId": id})
}

// headerObject is the request's headers as an action gets them, by their names
// in lower case. Those that only concern the transport of the body are left out,
// as the original's HTTP library does.
func (r *request) headerObject() json.RawMessage {
	all := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		switch name {
		case "Content-Length", "Transfer-Encoding":
		default:
			all[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	b, _ := entity.Marshal(all) // a map of strings always encodes
	return b
}
