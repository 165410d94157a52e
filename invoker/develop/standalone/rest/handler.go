// Package rest serves the HTTP API of an OpenWhisk controller as wsk and the
// OpenWhisk client libraries use it. It answers in the shape of the real one,
// field by field; to what it does not serve it answers 501.
//
// It checks what a user may do and translates requests to entities and
// activations. It stores nothing (package catalog does) and runs nothing
// (package controller does). Its goroutines are those of net/http.
package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// Config is what a Handler works with.
type Config struct {
	Controller *controller.Controller
	Catalog    *catalog.Catalog
	Manifest   *activation.Manifest
	Bounds     activation.Bounds // what the limits of actions may be
	Build      string            // version that the API names
	Log        *slog.Logger
}

// Handler answers requests.
type Handler struct {
	cfg   Config
	log   *slog.Logger
	mux   *http.ServeMux
	users users
}

// New makes a Handler.
func New(cfg Config) *Handler {
	h := &Handler{cfg: cfg, log: cfg.Log, mux: http.NewServeMux(), users: users{catalog: cfg.Catalog, known: map[string]knownUser{}}}
	h.mux.HandleFunc("/", h.serve(h.unserved))
	for path, m := range h.routes() {
		paths := []string{path}
		if !strings.HasSuffix(path, "}") {
			paths = append(paths, path+"/{$}")
		}
		for _, path := range paths {
			for method, serve := range m {
				if strings.HasPrefix(path, namespaces) {
					serve = h.authorized(serve)
				}
				h.mux.HandleFunc(strings.TrimSpace(method+" "+path), h.serve(serve))
			}
			if m[""] == nil {
				h.mux.HandleFunc(path, h.serve(h.notAllowed))
			}
		}
	}
	return h
}

// Paths of the API. A namespace is a name, or "_" for the caller's own.
const (
	webPath    = "/api/v1/web"
	namespaces = "/api/v1/namespaces"
	namespace  = namespaces + "/{ns}"
)

// methods are what answers the methods of a path; an empty method stands for
// all.
type methods map[string]func(*request) error

// of are the methods of an entity's path.
func (h *Handler) of(c collection, get, post func(*request) error) methods {
	return methods{"GET": get, "PUT": h.put(c), "POST": post, "DELETE": h.delete(c)}
}

// routes are all but those of web actions, whose paths are free.
func (h *Handler) routes() map[string]methods {
	action := h.of(h.actions(), h.getAction, h.invokeAction)
	return map[string]methods{
		"/{$}":                    {"": h.root},
		"/ping":                   {"": h.ping},
		"/invokers":               {"GET": h.invokers},
		"/invokers/healthy/count": {"GET": h.healthyCount},
		"/invokers/ready":         {"GET": h.invokersReady},
		"/activation/count":       {"GET": h.inFlight},
		"/api/v1":                 {"": h.apiInfo},
		namespaces:                {"GET": h.listNamespaces},
		namespace + "/limits":     {"GET": h.limits},

		namespace + "/actions":                  {"GET": h.listOwn(catalog.Actions)},
		namespace + "/actions/{package}/{$}":    {"GET": h.listPackageActions},
		namespace + "/actions/{name}":           action,
		namespace + "/actions/{package}/{name}": action,

		// POST is refresh, an operation of old clients.
		namespace + "/packages":        {"GET": h.listPackages},
		namespace + "/packages/{name}": h.of(h.packages(), h.getPackage, h.unserved),

		namespace + "/triggers":        {"GET": h.listOwn(catalog.Triggers)},
		namespace + "/triggers/{name}": h.of(h.triggers(), h.get(h.triggers()), h.fireTrigger),
		namespace + "/rules":           {"GET": h.listOwn(catalog.Rules)},
		namespace + "/rules/{name}":    h.of(h.rules(), h.get(h.rules()), h.switchRule),

		namespace + "/activations":             {"GET": h.listActivations},
		namespace + "/activations/{id}":        {"GET": h.getRecord(wholeRecord)},
		namespace + "/activations/{id}/result": {"GET": h.getRecord(resultOf)},
		namespace + "/activations/{id}/logs":   {"GET": h.getRecord(logsOf)},
	}
}

// request is one HTTP request on its way.
type request struct {
	*http.Request
	w       http.ResponseWriter
	transID activation.TransID
	query   url.Values
	user    *activation.Identity // nil before it is known
	ns      string               // the namespace in the path, resolved
	ref     entity.Ref           // the entity in the path
	err     error                // the first of what is wrong with body and parameters
}

// Headers of cross-origin requests, as the controller sets them.
const (
	allowedHeaders = "Authorization, Origin, X-Requested-With, Content-Type, Accept, User-Agent"
	apiMethods     = "GET, DELETE, POST, PUT, HEAD"
	webMethods     = "OPTIONS, GET, DELETE, POST, PUT, HEAD, PATCH"
)

// transactionHeader carries the name of a transaction, in and out.
const transactionHeader = "X-Request-ID"

// maxBody bounds any request: code of 48 MiB as base64, and what is around it.
const maxBody = 72 << 20

// transferTime is how long a user who is known may take for a request, or for an
// answer, where the line is slow.
const transferTime = 5 * time.Minute

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isWeb(r) {
		h.serve(h.web)(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

func isWeb(r *http.Request) bool {
	return r.URL.Path == webPath || strings.HasPrefix(r.URL.Path, webPath+"/")
}

func isAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/v1") }

// serve makes an HTTP handler of a route.
func (h *Handler) serve(route func(*request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, hr *http.Request) {
		hr.Body = http.MaxBytesReader(w, hr.Body, maxBody)
		r := &request{Request: hr, w: w, query: hr.URL.Query(), transID: newTransaction(hr)}
		w.Header().Set(transactionHeader, r.transID.ID())
		if err := route(r); err != nil {
			h.refuse(r, err)
		}
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

// authorized finds the caller and the namespace of the path first.
func (h *Handler) authorized(route func(*request) error) func(*request) error {
	return func(r *request) error {
		user, err := h.authenticate(r)
		if err != nil {
			return err
		}
		control, now := http.NewResponseController(r.w), time.Now()
		_ = control.SetReadDeadline(now.Add(transferTime))
		_ = control.SetWriteDeadline(now.Add(transferTime + controller.MaxWait + transferTime))
		r.user, r.ns = user, r.PathValue("ns")
		if r.ns == "_" || r.ns == "" {
			r.ns = user.Namespace.Name
		}
		if !activation.ValidName(r.ns) {
			return bad("The namespace contains illegal characters.")
		}
		r.ref = entity.Ref{Path: r.ns, Name: r.PathValue("name")}
		pkg := r.PathValue("package")
		if pkg != "" {
			r.ref.Path += "/" + pkg
		}
		for _, name := range []string{r.ref.Name, pkg} {
			if name != "" && !activation.ValidName(name) {
				return bad("The name of the entity contains illegal characters.")
			}
		}
		return route(r)
	}
}

// unserved answers for a route that may exist elsewhere, but not here.
func (h *Handler) unserved(r *request) error {
	if r.Method == http.MethodOptions && isAPI(r.Request) {
		return r.empty(http.StatusOK)
	}
	return &refusal{http.StatusNotImplemented, fmt.Sprintf("The resource '%s' is not supported here, by gpuwhisk standalone.", r.URL.Path)}
}

func (h *Handler) notAllowed(r *request) error {
	if r.Method == http.MethodOptions && isAPI(r.Request) {
		return r.empty(http.StatusOK)
	}
	return &refusal{http.StatusMethodNotAllowed, "HTTP method not allowed, supported methods: GET, PUT, POST, DELETE"}
}

// authenticate finds the user of the request's key.
func (h *Handler) authenticate(r *request) (*activation.Identity, error) {
	uuid, key, ok := r.BasicAuth()
	if !ok {
		return nil, &refusal{http.StatusUnauthorized, "The resource requires authentication, which was not supplied with the request"}
	}
	user, err := h.users.find(r.Context(), uuid, key)
	if errors.Is(err, couchdb.ErrNotFound) {
		return nil, &refusal{http.StatusUnauthorized, "The supplied authentication is invalid"}
	}
	return user, err
}

// own refuses a namespace that is not the caller's.
func (r *request) own(ns string) error {
	if ns == r.user.Namespace.Name {
		return nil
	}
	return &refusal{http.StatusForbidden, "The supplied authentication is not authorized to access this resource."}
}

// mayUse refuses an action of another namespace unless its package is shared.
func (h *Handler) mayUse(r *request, action entity.Ref) error {
	return h.mayUsePackage(r, action.PackageRef())
}

// mayUsePackage refuses a package of another namespace unless it is shared. The
// name is empty for what is in no package.
func (h *Handler) mayUsePackage(r *request, pkg entity.Ref) error {
	if pkg.Path == r.user.Namespace.Name {
		return nil
	}
	if pkg.Name != "" {
		p, err := h.cfg.Catalog.Get(r.Context(), entity.Package, pkg)
		switch {
		case err == nil && p.Publish:
			return nil
		case pkg.Path == controller.SystemNamespace && errors.Is(err, couchdb.ErrNotFound):
			return noSystemPackage(pkg.Name)
		}
	}
	return &refusal{http.StatusForbidden, fmt.Sprintf("The supplied authentication is not authorized to access '%s'.", pkg.Path)}
}

// keep is for how long an identity is taken from memory: a change of limits or
// keys in the database takes effect after it.
const keep = 10 * time.Second

// users caches the users of the last keys. Every request has a key, and a lookup
// takes two exchanges with the database.
type users struct {
	catalog *catalog.Catalog
	mu      sync.Mutex
	known   map[string]knownUser
}

type knownUser struct {
	user *activation.Identity
	at   time.Time
}

// find finds the identity of a key: uuid and secret, or a namespace for its
// owner. A namespace contains no colon, so that the two differ.
func (u *users) find(ctx context.Context, key ...string) (*activation.Identity, error) {
	name, now := strings.Join(key, ":"), time.Now()
	u.mu.Lock()
	k, ok := u.known[name]
	u.mu.Unlock()
	if ok && now.Sub(k.at) < keep {
		return k.user, nil
	}
	user, err := u.catalog.Identity(ctx, key...)
	if err != nil {
		return nil, err // a key without a user is not cached
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for old, k := range u.known { // few: one per key in use
		if now.Sub(k.at) >= keep {
			delete(u.known, old)
		}
	}
	u.known[name] = knownUser{user, now}
	return user, nil
}
