package rest

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
)

// Guard refuses what a browser sends for a web page of another origin, unless it is
// one of the origins given: the API runs code as its user, on a port that everybody
// knows. A request whose host is a name is refused, too: a page can have a name of its
// own lead here (DNS rebinding).
func Guard(next http.Handler, origins []string) (http.Handler, error) {
	foreign := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if err := foreign.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("origin %s: %w (such as http://localhost:5173)", origin, err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpserver.IsLocal(r.Host) {
			http.Error(w, "The host of the request is neither an address nor localhost.", http.StatusForbidden)
			return
		}
		if origin := r.Header.Get("Origin"); slices.Contains(origins, origin) {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Allow-Headers", allowedHeaders)
			w.Header().Set("Access-Control-Allow-Methods", apiMethods)
			w.Header().Add("Vary", "Origin")
		} else if foreign.Check(r) != nil {
			http.Error(w, "The request comes from a web page of another origin (standalone --cors ORIGIN lets one in).", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}
