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

// adminUser is the user of the invoker's admin port. The password is generated at each
// start.
const adminUser = "standalone"

// consolePath is the path of the console at the REST API. It is the same at the invoker.
const consolePath = "/console/"

// withConsole adds the invoker's console to the REST API, read-only and without a
// password. It is served only at the loopback interface, and rest.Guard refuses pages of
// other sites. Action containers reach the API at another address and get no console,
// because it shows the calls of all namespaces.
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

// wantsPage reports whether a request is from a browser, not from a client of the API.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// Console returns the address of the console, "" if there is none.
func (s *Standalone) Console() string {
	if s.opts.Admin == nil {
		return ""
	}
	return s.info.APIHost + consolePath
}
