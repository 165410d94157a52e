package standalone

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
)

// adminUser is the user of the invoker's admin port. The password is made up at
// each start.
const adminUser = "standalone"

// consolePath is where the console lies at the REST API. The invoker has it
// under the same path.
const consolePath = "/console/"

// withConsole serves the invoker's console beside the REST API, read-only and
// without a password: only requests at the loopback interface get it, and rest.Guard
// refuses pages of other sites. Action containers reach the API at another address. They
// get no console, which shows the calls of all namespaces.
func (s *Standalone) withConsole(api http.Handler) http.Handler {
	if s.opts.Admin == nil {
		return api
	}
	console := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: s.opts.Admin()})
			r.Out.SetBasicAuth(adminUser, s.adminPassword)
			r.Out.Header.Del("Cookie")
		},
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "the invoker is not there yet, or has ended", http.StatusServiceUnavailable)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !atLoopback(r):
			api.ServeHTTP(w, r)
		case r.URL.Path == strings.TrimSuffix(consolePath, "/"), r.URL.Path == "/" && r.Method == http.MethodGet && wantsPage(r):
			http.Redirect(w, r, consolePath, http.StatusSeeOther)
		case !strings.HasPrefix(r.URL.Path, consolePath):
			api.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "the console is read-only", http.StatusMethodNotAllowed)
		case s.opts.Admin() == "":
			http.Error(w, "the invoker is starting", http.StatusServiceUnavailable)
		default:
			ctx, end := context.WithCancel(r.Context())
			defer end()
			defer context.AfterFunc(s.closing, end)()
			console.ServeHTTP(httpserver.Stream(w), r.WithContext(ctx))
		}
	})
}

// atLoopback reports whether a request came to an address of the loopback interface.
func atLoopback(r *http.Request) bool {
	at, is := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return is && at.IP.IsLoopback()
}

// wantsPage distinguishes a browser from the clients of the API.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// Console is the address of the console, empty where there is none.
func (s *Standalone) Console() string {
	if s.opts.Admin == nil {
		return ""
	}
	return s.info.APIHost + consolePath
}
