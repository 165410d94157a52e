// Package rest is the door of the standalone command: the HTTP API of an
// OpenWhisk controller as wsk and the OpenWhisk client libraries use it. It
// answers in the shape of the real one, field by field; what it does not serve
// it says so.
//
// It decides who may do what and translates requests to entities and
// activations. It stores nothing (package catalog does) and runs nothing
// (package controller does). Its goroutines are those of net/http.
package rest

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/controller"
)

// Config is what a door opens onto.
type Config struct {
	Controller *controller.Controller
	Catalog    *catalog.Catalog
	Manifest   *activation.Manifest
	Bounds     activation.Bounds // what the limits of actions may be
	Build      string            // version that the API tells
	Log        *slog.Logger
}

// Door answers requests.
type Door struct {
	cfg   Config
	log   *slog.Logger
	users *users
}

// New makes a door.
func New(cfg Config) *Door {
	return &Door{cfg: cfg, log: cfg.Log, users: newUsers(cfg.Catalog)}
}

// request is one HTTP request on its way through the door.
type request struct {
	*http.Request
	w       http.ResponseWriter
	transID activation.TransID
	user    *activation.Identity // nil before it is known
	query   url.Values
}

// Headers of cross-origin requests, as the controller sets them.
const (
	allowedHeaders = "Authorization, Origin, X-Requested-With, Content-Type, Accept, User-Agent"
	apiMethods     = "GET, DELETE, POST, PUT, HEAD"
	adminMethods   = "OPTIONS, GET, POST"
	webMethods     = "OPTIONS, GET, DELETE, POST, PUT, HEAD, PATCH"
)

// transactionHeader carries the name of a transaction, in and out.
const transactionHeader = "X-Request-ID"

// maxBody bounds any request: code of 48 MiB as base64, and what is around it.
const maxBody = 72 << 20

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &request{Request: hr, w: w, query: hr.URL.Query(), transID: newTransaction(hr)}
	hr.Body = http.MaxBytesReader(w, hr.Body, maxBody)
	w.Header().Set(transactionHeader, r.transID.ID())
	segments, err := split(hr.URL)
	if err != nil {
		r.refuse(bad("The request URI is not properly escaped."))
		return
	}
	if err := d.route(r, segments); err != nil {
		d.fail(r, err)
	}
}

// newTransaction takes the caller's name for the transaction, or makes one.
// Names that begin with sid_ are the system's own.
func newTransaction(r *http.Request) activation.TransID {
	id := r.Header.Get(transactionHeader)
	if id == "" || strings.HasPrefix(id, "sid_") || len(id) > 256 {
		id = controller.NewTransID()
	}
	extra := strings.EqualFold(r.Header.Get("X-OW-EXTRA-LOGGING"), "on")
	return activation.NewTransID(id, time.Now().UnixMilli(), extra)
}

// split unescapes the segments of the path one by one: names may contain
// escaped slashes and blanks. A slash at the end makes an empty last segment.
func split(u *url.URL) ([]string, error) {
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	for i, p := range parts {
		text, err := url.PathUnescape(p)
		if err != nil {
			return nil, err
		}
		parts[i] = text
	}
	return parts, nil
}

func (d *Door) route(r *request, path []string) error {
	switch path[0] {
	case "":
		r.allow(adminMethods)
		return d.root(r)
	case "ping":
		return d.ping(r)
	case "invokers", "activation":
		r.allow(adminMethods)
		return d.admin(r, path)
	case "api":
		if len(path) >= 2 && path[1] == "v1" {
			return d.api(r, path[2:])
		}
	}
	return notServed(r.URL.Path)
}

// ping says whether an action can run.
func (d *Door) ping(r *request) error {
	if d.cfg.Controller.Starting() {
		r.w.Header().Set("Retry-After", "1")
		return r.text(http.StatusServiceUnavailable, "not ready: the invoker is starting")
	}
	return r.text(http.StatusOK, "pong")
}

func (d *Door) api(r *request, path []string) error {
	if len(path) > 0 && path[0] == "web" {
		return d.web(r, path[1:])
	}
	r.allow(apiMethods)
	if r.Method == http.MethodOptions {
		return r.empty(http.StatusOK)
	}
	switch {
	case len(path) == 0 || len(path) == 1 && path[0] == "":
		return d.apiInfo(r)
	case path[0] != "namespaces":
		return notServed(r.URL.Path)
	}
	user, err := d.authenticate(r)
	if err != nil {
		return err
	}
	r.user = user
	return d.namespaces(r, path[1:])
}

// namespaces routes below /api/v1/namespaces.
func (d *Door) namespaces(r *request, path []string) error {
	if len(path) == 0 || len(path) == 1 && path[0] == "" {
		if r.Method != http.MethodGet {
			return notAllowed()
		}
		return r.json(http.StatusOK, []string{r.user.Namespace.Name})
	}
	ns := path[0]
	if ns == "_" {
		ns = r.user.Namespace.Name
	}
	if !activation.ValidName(ns) {
		return bad("The namespace contains illegal characters.")
	}
	if len(path) == 1 {
		return notServed(r.URL.Path)
	}
	rest := path[2:]
	switch path[1] {
	case "actions":
		return d.actions(r, ns, rest)
	case "packages":
		return d.packages(r, ns, rest)
	case "triggers":
		return d.triggers(r, ns, rest)
	case "rules":
		return d.rules(r, ns, rest)
	case "activations":
		return d.activations(r, ns, rest)
	case "limits":
		return d.limits(r, ns)
	}
	return notServed(r.URL.Path)
}

// fail turns an error into the answer that OpenWhisk would give.
func (d *Door) fail(r *request, err error) {
	answer := d.translate(err)
	if answer.status >= 500 && answer.status != http.StatusNotImplemented {
		d.log.Error("request failed", "transid", r.transID.ID(), "method", r.Method, "path", r.URL.Path, "err", err)
	}
	r.refuse(answer)
}

func (r *request) allow(methods string) {
	h := r.w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Headers", allowedHeaders)
	h.Set("Access-Control-Allow-Methods", methods)
}

// is tells whether err is one of the targets.
func is(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
