package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// textParameters refuses arguments that the caller may not set.
const textParameters = "Request defines parameters that are not allowed (e.g., reserved properties)."

// refusal is an error with its HTTP status.
type refusal struct {
	status int
	text   string
}

// Error is the text.
func (e *refusal) Error() string { return e.text }

func bad(text string) *refusal { return &refusal{http.StatusBadRequest, text} }
func missing() *refusal {
	return &refusal{http.StatusNotFound, "The requested resource does not exist."}
}
func conflict(text string) *refusal { return &refusal{http.StatusConflict, text} }

// gatewayPackage is that of an API gateway, which this process lacks.
const gatewayPackage = "apimgmt"

// noGateway answers wsk api.
func noGateway() *refusal {
	return &refusal{http.StatusNotImplemented, "API gateway routes (wsk api) are not supported here, by gpuwhisk standalone; " +
		"a web action has an address of its own (wsk action update NAME --web true, wsk action get NAME --url)."}
}

// noSystemPackage answers for a package that comes with OpenWhisk, such as a feed
// of alarms.
func noSystemPackage(name string) *refusal {
	return &refusal{http.StatusNotImplemented, fmt.Sprintf("The package '/%s/%s' is not supported here: gpuwhisk standalone has no catalogue of "+
		"packages and no providers of feeds. A trigger without a feed can be fired by hand (wsk trigger fire) or by a cron job.", controller.SystemNamespace, name)}
}

// translate finds the answer to an error of any package behind the API.
func (h *Handler) translate(err error) *refusal {
	var r *refusal
	var badPut *entity.BadRequest
	var large *entity.TooLarge
	var tooMuch *http.MaxBytesError
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &badPut):
		return bad(badPut.Text)
	case errors.As(err, &large):
		return &refusal{http.StatusRequestEntityTooLarge, large.Error()}
	case errors.As(err, &tooMuch):
		return &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("Request larger than allowed: more than %d bytes.", tooMuch.Limit)}
	case errors.Is(err, couchdb.ErrNotFound):
		return missing()
	case errors.Is(err, entity.ErrOtherKind):
		return conflict("Resource by this name exists but is not in this collection.")
	case errors.Is(err, couchdb.ErrConflict):
		return conflict("Concurrent modification to resource detected.")
	case errors.Is(err, catalog.ErrCircular):
		return bad("Cannot bind to another package binding.")
	case errors.Is(err, controller.ErrTooLarge):
		return &refusal{http.StatusRequestEntityTooLarge, "The request entity is larger than the server is willing or able to process."}
	case errors.Is(err, controller.ErrNoInvoker), errors.Is(err, controller.ErrClosed):
		return &refusal{http.StatusServiceUnavailable, "No invokers available: " + err.Error() + "."}
	}
	return &refusal{http.StatusInternalServerError, "There was an internal server error."}
}

// refuse answers with an error: the text that OpenWhisk has for it, and the
// transaction by which it is found in the logs.
func (h *Handler) refuse(r *request, err error) {
	e := h.translate(err)
	if e.status >= 500 && e.status != http.StatusNotImplemented {
		h.log.Error("request failed", "transid", r.transID.ID(), "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if e.status == http.StatusUnauthorized {
		r.w.Header().Set("WWW-Authenticate", `Basic realm="OpenWhisk secure realm"`)
	}
	_ = r.json(e.status, map[string]string{"code": r.transID.ID(), "error": e.text})
}

func (r *request) json(status int, v any) error {
	b, err := entity.Marshal(v)
	if err != nil {
		return err
	}
	return r.raw(status, b)
}

// raw answers with JSON that is ready.
func (r *request) raw(status int, b []byte) error {
	r.w.Header().Set("Content-Type", "application/json")
	return r.send(status, b)
}

func (r *request) text(status int, s string) error {
	r.w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	return r.send(status, []byte(s))
}

func (r *request) empty(status int) error {
	if status != http.StatusNoContent {
		r.w.Header().Set("Content-Length", "0")
	}
	r.w.WriteHeader(status)
	return nil
}

func (r *request) send(status int, b []byte) error {
	r.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(b) // an error here is of a client that went away
	}
	return nil
}
