package rest

import (
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
)

// Guard refuses what a browser sends for a web page of another origin: the API runs code
// as its user, on a port that everybody knows. A request whose host is a name is refused,
// too: a page can have a name of its own lead here (DNS rebinding).
func Guard(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "The request comes from a web page of another origin.", http.StatusForbidden)
	}))
	guarded := foreign.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpserver.IsLocal(r.Host) {
			http.Error(w, "The host of the request is neither an address nor localhost.", http.StatusForbidden)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}
