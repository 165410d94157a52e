// Package admin serves the invoker's own HTTP endpoints: /ping, /metrics, /enable,
// /disable and /isEnabled with OpenWhisk's answers, /status, which explains why the
// invoker is healthy or not, and the console. The package makes no decisions; its data
// come from the given functions. It starts no goroutine.
package admin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
)

// Options sets the served data and the login.
type Options struct {
	Instance           string // text form of the instance, such as "invoker0/0"
	Username, Password string
	// LocalOnly restricts the guarded endpoints to this machine.
	LocalOnly bool
	// Names are the names of this machine, given if the login is well known. Requests
	// for other host names are refused then, because a web page could point a name of
	// its own here and use the well-known login (DNS rebinding).
	Names     []string // nil: any name
	Header    string   // name of the header with the transaction id
	Metrics   http.Handler
	Pings     Pings
	Status    func(ctx context.Context) (any, error) // nil: not served
	Console   http.Handler                           // below /console/; nil: not served
	Fallbacks Fallbacks                              // nil: not served
	// Pool returns the containers and their number, as OpenWhisk's scheduler mode shows
	// them. If it is nil, they are not served.
	Pool func(ctx context.Context) (pool any, count int, err error)
	// Answered is called for each request. It may be nil.
	Answered func(method string, status int, took time.Duration)
}

// Fallbacks lists the actions whose GPU memory is counted but not moved. Clear removes
// an action, or all for an empty name, and returns the number of removed actions.
type Fallbacks interface {
	List() any
	Clear(action string) int
}

// Pings controls the pings that make controllers send work. Enable and Disable report
// whether they changed the state.
type Pings interface {
	Enabled() bool
	Enable() bool
	Disable() bool
}

// New returns the handler of all endpoints.
func New(o Options) http.Handler {
	d := &handler{o}
	guarded := http.NewServeMux()
	guarded.HandleFunc("GET /isEnabled", d.isEnabled)
	guarded.HandleFunc("POST /enable", d.enable)
	guarded.HandleFunc("POST /disable", d.disable)
	if o.Status != nil {
		guarded.HandleFunc("GET /status", d.status)
	}
	if o.Pool != nil {
		guarded.HandleFunc("GET /pool", d.pool)
		guarded.HandleFunc("GET /pool/count", d.poolCount)
	}
	if o.Fallbacks != nil {
		guarded.HandleFunc("GET /fallbacks", d.fallbacks)
		guarded.HandleFunc("DELETE /fallbacks", d.clearFallbacks)
	}
	if o.Console != nil {
		guarded.Handle("/console/", http.StripPrefix("/console", o.Console))
		guarded.Handle("GET /{$}", http.RedirectHandler("console/", http.StatusSeeOther))
	}
	guarded.HandleFunc("/", d.notFound)

	open := http.NewServeMux()
	open.HandleFunc("GET /ping", d.ping)
	if o.Metrics != nil {
		open.Handle("GET /metrics", o.Metrics)
	}
	// A browser sends the user's saved login with every request, even with requests that
	// a page of another origin makes.
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.refuse(w, http.StatusForbidden, "The request comes from a web page of another origin.")
	}))
	open.Handle("/", origin.Handler(d.guard(guarded)))
	return d.transaction(open)
}

type handler struct{ Options }

// transaction adds a transaction id to every answer. The caller's id is kept unless it
// looks like an id of the system.
func (d *handler) transaction(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(d.Header)
		if id == "" || strings.HasPrefix(id, "sid_") || len(id) > 256 {
			id = rand.Text()
		}
		w.Header().Set(d.Header, id)
		if d.Answered == nil {
			next.ServeHTTP(w, r)
			return
		}
		began, recorded := time.Now(), &recorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(recorded, r)
		d.Answered(r.Method, recorded.status, time.Since(began))
	})
}

// recorder stores the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (h *recorder) WriteHeader(status int) {
	h.status = status
	h.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (h *recorder) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (d *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.LocalOnly && !fromHere(r) {
			d.refuse(w, http.StatusForbidden, "No password is set, so only this machine is served: set whisk.invoker.username and whisk.invoker.password.")
			return
		}
		if d.Names != nil && !httpserver.IsLocal(r.Host) && !httpserver.IsNamed(r.Host, d.Names) {
			d.refuse(w, http.StatusForbidden, "The password is the default of OpenWhisk's sources, so the host in the request must be an address, localhost or this machine's name: set whisk.invoker.password.")
			return
		}
		user, password, _ := r.BasicAuth()
		ok := subtle.ConstantTimeCompare([]byte(user), []byte(d.Username)) &
			subtle.ConstantTimeCompare([]byte(password), []byte(d.Password))
		if ok != 1 {
			d.refuse(w, http.StatusUnauthorized, "Authentication is possible but has failed or not yet been provided.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromHere reports whether a request comes from this machine.
func fromHere(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

func (d *handler) ping(w http.ResponseWriter, _ *http.Request) { text(w, "pong") }

func (d *handler) isEnabled(w http.ResponseWriter, _ *http.Request) {
	if d.Pings.Enabled() {
		text(w, `{"enabled":true}`)
		return
	}
	text(w, `{"enabled":false}`)
}

func (d *handler) enable(w http.ResponseWriter, _ *http.Request) {
	text(w, d.Instance+switched(d.Pings.Enable())+"enabled.")
}

func (d *handler) disable(w http.ResponseWriter, _ *http.Request) {
	text(w, d.Instance+switched(d.Pings.Disable())+"disabled.")
}

func switched(changed bool) string {
	if changed {
		return " is now "
	}
	return " is already "
}

func (d *handler) status(w http.ResponseWriter, r *http.Request) {
	s, err := d.Status(r.Context())
	if err != nil {
		d.refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	document(w, s)
}

func (d *handler) pool(w http.ResponseWriter, r *http.Request) {
	pool, _, err := d.Pool(r.Context())
	if err != nil {
		d.refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	document(w, pool)
}

// poolCount answers with a bare number. OpenWhisk's upgrade waits until it is 0.
func (d *handler) poolCount(w http.ResponseWriter, r *http.Request) {
	_, n, err := d.Pool(r.Context())
	if err != nil {
		d.refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	text(w, strconv.Itoa(n))
}

func document(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = prettyjson.Write(w, v) // an error means that the connection is lost
}

func (d *handler) fallbacks(w http.ResponseWriter, _ *http.Request) { document(w, d.Fallbacks.List()) }

// clearFallbacks clears the action in the query, or all actions with all=true.
func (d *handler) clearFallbacks(w http.ResponseWriter, r *http.Request) {
	action, all := r.URL.Query().Get("action"), r.URL.Query().Get("all") == "true"
	if (action == "") != all {
		d.refuse(w, http.StatusBadRequest, "Give ?action=NAMESPACE/PACKAGE/ACTION for one action, or ?all=true for all.")
		return
	}
	n := d.Fallbacks.Clear(action)
	if n == 0 && !all {
		d.refuse(w, http.StatusNotFound, "The action "+action+" has not fallen back.")
		return
	}
	document(w, map[string]int{"cleared": n})
}

func (d *handler) notFound(w http.ResponseWriter, _ *http.Request) {
	d.refuse(w, http.StatusNotFound, "The requested resource could not be found.")
}

func (d *handler) refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="OpenWhisk secure realm"`)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Code  string `json:"code"`
		Error string `json:"error"`
	}{w.Header().Get(d.Header), why})
}

func text(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	_, _ = w.Write([]byte(s))
}
