package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/entity"
)

// Texts of OpenWhisk's controller that several routes answer with.
const (
	textMissing    = "The requested resource does not exist."
	textOtherKind  = "Resource by this name exists but is not in this collection."
	textConflict   = "Concurrent modification to resource detected."
	textExists     = "resource already exists"
	textForbidden  = "The supplied authentication is not authorized to access this resource."
	textParameters = "Request defines parameters that are not allowed (e.g., reserved properties)."
	textOnBinding  = "Operation not permitted on package binding."
)

// refusal is an answer that says no.
type refusal struct {
	status int
	text   string
}

// Error is the text.
func (e *refusal) Error() string { return e.text }

func bad(text string) *refusal      { return &refusal{http.StatusBadRequest, text} }
func missing() *refusal             { return &refusal{http.StatusNotFound, textMissing} }
func conflict(text string) *refusal { return &refusal{http.StatusConflict, text} }

func notAllowed() *refusal {
	return &refusal{http.StatusMethodNotAllowed, "HTTP method not allowed, supported methods: GET, PUT, POST, DELETE"}
}

// notServed says that a route exists elsewhere, perhaps, but not here.
func notServed(path string) *refusal {
	return &refusal{http.StatusNotImplemented, fmt.Sprintf("The resource '%s' is not supported here, by gpuwhisk standalone.", path)}
}

// What a whole installation of OpenWhisk has beside the controller, and this
// process has not.
const (
	systemNamespace = "whisk.system"
	gatewayPackage  = "apimgmt"
)

// noGateway answers wsk api.
func noGateway() *refusal {
	return &refusal{http.StatusNotImplemented, "API gateway routes (wsk api) are not supported here, by gpuwhisk standalone; " +
		"a web action has an address of its own (wsk action update NAME --web true, wsk action get NAME --url)."}
}

// noSystemPackage answers who asks for a package that comes with OpenWhisk,
// such as a feed of alarms.
func noSystemPackage(name string) *refusal {
	return &refusal{http.StatusNotImplemented, fmt.Sprintf("The package '/%s/%s' is not supported here: gpuwhisk standalone has no catalogue of "+
		"packages and no providers of feeds. A trigger without a feed can be fired by hand (wsk trigger fire) or by a cron job.", systemNamespace, name)}
}

// translate finds the answer to an error of any package behind the door.
func (d *Door) translate(err error) *refusal {
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
	case is(err, couchdb.ErrNotFound):
		return missing()
	case is(err, entity.ErrOtherKind):
		return conflict(textOtherKind)
	case is(err, couchdb.ErrConflict):
		return conflict(textConflict)
	case is(err, catalog.ErrCircular):
		return bad("Cannot bind to another package binding.")
	case is(err, controller.ErrTooLarge):
		return &refusal{http.StatusRequestEntityTooLarge, "The request entity is larger than the server is willing or able to process."}
	case is(err, controller.ErrNoInvoker, controller.ErrClosed):
		return &refusal{http.StatusServiceUnavailable, "No invokers available: " + err.Error() + "."}
	}
	return &refusal{http.StatusInternalServerError, "There was an internal server error."}
}

// refuse answers with an error: its text and the transaction to look for.
func (r *request) refuse(e *refusal) {
	if e.status == http.StatusUnauthorized {
		r.w.Header().Set("WWW-Authenticate", `Basic realm="OpenWhisk secure realm"`)
	}
	_ = r.json(e.status, map[string]string{"code": r.transID.ID(), "error": e.text})
}

// encode writes JSON as OpenWhisk does: nothing escaped that need not be.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func (r *request) json(status int, v any) error {
	b, err := encode(v)
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
		_, _ = r.w.Write(b) // a client that went away has no claim
	}
	return nil
}

// list answers with JSON values as they are.
func (r *request) list(items []json.RawMessage) error {
	if items == nil {
		items = []json.RawMessage{}
	}
	return r.json(http.StatusOK, items)
}

// body reads the whole body.
func (r *request) body() ([]byte, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	return b, nil
}

// put reads what a PUT of an entity says, and whether it may replace one.
func (r *request) put() (body []byte, overwrite bool, err error) {
	if overwrite, err = r.flag("overwrite", false); err != nil {
		return nil, false, err
	}
	body, err = r.body()
	return body, overwrite, err
}
