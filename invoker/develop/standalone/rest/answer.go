package rest

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

func missing() *entity.Refusal {
	return entity.Refuse(http.StatusNotFound, "The requested resource does not exist.")
}

func conflict(format string, args ...any) *entity.Refusal {
	return entity.Refuse(http.StatusConflict, format, args...)
}

// noSystemPackage answers for a package that comes with OpenWhisk, such as a feed
// of alarms.
func noSystemPackage(name string) error {
	return entity.Refuse(http.StatusNotImplemented, "The package '/%s/%s' is not supported here: gpuwhisk standalone has no catalogue of "+
		"packages and no providers of feeds. A cron job can call an action.", controller.SystemNamespace, name)
}

// translate finds the answer to an error of any package behind the API.
func translate(err error) *entity.Refusal {
	var refused *entity.Refusal
	var tooMuch *http.MaxBytesError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &tooMuch):
		return entity.Refuse(http.StatusRequestEntityTooLarge, "Request larger than allowed: more than %d bytes.", tooMuch.Limit)
	case errors.Is(err, couchdb.ErrNotFound):
		return missing()
	case errors.Is(err, entity.ErrOtherKind):
		return conflict("Resource by this name exists but is not in this collection.")
	case errors.Is(err, couchdb.ErrConflict):
		return conflict("Concurrent modification to resource detected.")
	}
	return entity.Refuse(http.StatusInternalServerError, "There was an internal server error.")
}

// refuse answers with an error: OpenWhisk's text, and the transaction id for finding
// the request in the logs.
func (r *request) refuse(err error) {
	e := translate(err)
	if e.Status >= 500 && e.Status != http.StatusNotImplemented {
		r.Log.Error("request failed", "transid", r.transID.ID(), "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if e.Status == http.StatusUnauthorized {
		r.w.Header().Set("WWW-Authenticate", `Basic realm="OpenWhisk secure realm"`)
	}
	_ = r.json(e.Status, map[string]string{"code": r.transID.ID(), "error": e.Text})
}

func (r *request) json(status int, v any) error {
	b, err := entity.Marshal(v)
	if err != nil {
		return err
	}
	return r.send(status, "application/json", b)
}

// sendJSON answers with JSON as it stands, or gives the error that its making had.
func (r *request) sendJSON(b []byte, err error) error {
	if err != nil {
		return err
	}
	return r.send(http.StatusOK, "application/json", b)
}

func (r *request) text(status int, s string) error {
	return r.send(status, "text/plain; charset=UTF-8", []byte(s))
}

func (r *request) send(status int, contentType string, b []byte) error {
	r.w.Header().Set("Content-Type", contentType)
	r.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(b) // an error here is of a client that went away
	}
	return nil
}
