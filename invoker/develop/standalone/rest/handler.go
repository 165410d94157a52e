// Package rest serves the part of an OpenWhisk controller's HTTP API that wsk and the
// client libraries use: actions, sequences, packages and activations. Its answers have the
// same fields as the original's. Other requests are answered with 501, such as those for
// web actions, triggers and rules.
//
// The package checks permissions and translates requests to entities and activations.
// Package couchdb stores entities, and package controller runs activations. All
// goroutines belong to net/http.
package rest

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// Config holds the parts and settings of a Handler.
type Config struct {
	Controller *controller.Controller
	DB         *couchdb.Client
	Manifest   *activation.Manifest
	Bounds     activation.Bounds // bounds of actions' limits
	Build      string            // version that the API names
	Log        *slog.Logger
}

// Handler answers requests.
type Handler struct {
	Config
	mux   *http.ServeMux
	known sync.Map // of users by their keys
}

// New makes a Handler.
func New(cfg Config) *Handler {
	h := &Handler{Config: cfg, mux: http.NewServeMux()}
	h.handle("/", (*request).unserved)
	for path, m := range routes() {
		h.route(path, m)
		if !strings.HasSuffix(path, "}") {
			h.route(path+"/{$}", m)
		}
	}
	return h
}

func (h *Handler) route(path string, m methods) {
	for method, serve := range m {
		if strings.HasPrefix(path, namespaces) {
			serve = authorized(serve)
		}
		h.handle(strings.TrimSpace(method+" "+path), serve)
	}
	if m[""] == nil {
		h.handle(path, (*request).notAllowed)
	}
}

func (h *Handler) handle(pattern string, serve func(*request) error) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, serve) })
}

// Paths of the API. A namespace is a name, or "_" for the caller's own.
const (
	namespaces = "/api/v1/namespaces"
	namespace  = namespaces + "/{ns}"
)

// methods maps the methods of a path to handlers. The empty method stands for all.
type methods map[string]func(*request) error

// routes returns the methods of all paths that are served.
func routes() map[string]methods {
	all := map[string]methods{
		"/{$}":                {"": (*request).root},
		"/ping":               {"": (*request).ping},
		"/invokers":           {"GET": (*request).invokers},
		"/invokers/ready":     {"GET": (*request).invokersReady},
		"/api/v1":             {"": (*request).apiInfo},
		namespaces:            {"GET": (*request).listNamespaces},
		namespace + "/limits": {"GET": (*request).limits},

		namespace + "/actions/{package}/{$}": {"GET": (*request).listPackageActions},

		namespace + "/triggers":                {"GET": listNone("triggers")},
		namespace + "/rules":                   {"GET": listNone("rules")},
		namespace + "/activations":             {"GET": (*request).listActivations},
		namespace + "/activations/{id}":        {"GET": part(func(e extended) any { return e })},
		namespace + "/activations/{id}/result": {"GET": part(func(e extended) any { return e["response"] })},
		namespace + "/activations/{id}/logs":   {"GET": part(func(e extended) any { return extended{"logs": e["logs"]} })},
	}
	for _, c := range collections() {
		one := methods{"GET": c.get, "PUT": c.put, "POST": c.post, "DELETE": c.delete}
		all[namespace+"/"+c.name] = methods{"GET": c.list}
		all[namespace+"/"+c.name+"/{name}"] = one
		if c.kind == entity.Action {
			all[namespace+"/"+c.name+"/{package}/{name}"] = one
		}
	}
	return all
}

// request is one HTTP request on its way.
type request struct {
	*http.Request
	*Handler
	w       http.ResponseWriter
	transID activation.TransID
	query   url.Values
	user    *activation.Identity // nil before it is known
	ns      string               // the namespace in the path, resolved
	ref     entity.Ref           // the entity in the path
	err     error                // the first fault of body and parameters
}

// transactionHeader carries the name of a transaction, in and out.
const transactionHeader = "X-Request-ID"

// maxBody limits the body of a request: code of 48 MiB in base64, and the other fields.
const maxBody = 72 << 20

// transferTime is how long a user who is known may take for a request, or for an
// answer, where the line is slow.
const transferTime = 5 * time.Minute

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

func (h *Handler) serve(w http.ResponseWriter, hr *http.Request, route func(*request) error) {
	hr.Body = http.MaxBytesReader(w, hr.Body, maxBody)
	r := &request{Request: hr, Handler: h, w: w, query: hr.URL.Query(), transID: newTransaction(hr)}
	w.Header().Set(transactionHeader, r.transID.ID())
	if err := route(r); err != nil {
		r.refuse(err)
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

// authorized returns a handler that identifies the caller and parses the beginning of
// the path before it calls route.
func authorized(route func(*request) error) func(*request) error {
	return func(r *request) error {
		if err := r.authenticate(); err != nil {
			return err
		}
		control, now := http.NewResponseController(r.w), time.Now()
		_ = control.SetReadDeadline(now.Add(transferTime))
		_ = control.SetWriteDeadline(now.Add(transferTime + controller.MaxWait + transferTime))
		if r.ns = r.PathValue("ns"); r.ns == "_" || r.ns == "" {
			r.ns = r.user.Namespace.Name
		}
		if !activation.ValidName(r.ns) {
			return entity.Bad("The namespace contains illegal characters.")
		}
		r.ref = entity.Ref{Path: r.ns, Name: r.PathValue("name")}
		pkg := r.PathValue("package")
		if pkg != "" {
			r.ref.Path += "/" + pkg
		}
		for _, name := range []string{r.ref.Name, pkg} {
			if name != "" && !activation.ValidName(name) {
				return entity.Bad("The name of the entity contains illegal characters.")
			}
		}
		return route(r)
	}
}

// unserved answers for a route that may exist elsewhere, but not here.
func (r *request) unserved() error {
	return entity.Refuse(http.StatusNotImplemented, "The resource '%s' is not supported here, by gpuwhisk standalone.", r.URL.Path)
}

func (r *request) notAllowed() error {
	return entity.Refuse(http.StatusMethodNotAllowed, "HTTP method not allowed, supported methods: GET, PUT, POST, DELETE")
}
