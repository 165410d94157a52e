package standalone

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestConsoleAtLoopbackOnly: the console has no password and shows the calls of all
// namespaces, so action containers, which reach the API at their network's gateway, must
// not get it.
func TestConsoleAtLoopbackOnly(t *testing.T) {
	invoker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	defer invoker.Close()
	s := &Standalone{closing: t.Context()}
	s.opts.Admin = invoker.Listener.Addr().String
	h := s.withConsole(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for address, want := range map[string]int{"127.0.0.1": http.StatusOK, "172.18.0.1": http.StatusTeapot} {
		for _, path := range []string{"/console/", "/console/events", "/console/explain/1"} {
			ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(address), Port: 3233})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx))
			check.Equal(t, w.Code, want, "%s at %s", path, address)
		}
	}
}
