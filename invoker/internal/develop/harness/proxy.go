package harness

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Proxy starts a proxy in front of a server until the test ends, and returns the
// proxy's URL. Requests pass through wrap, which may answer in place of the server.
func Proxy(t testing.TB, target string, wrap func(http.Handler) http.Handler) (address string) {
	t.Helper()
	at, err := url.Parse(target)
	check.NoError(t, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	forward := httputil.NewSingleHostReverseProxy(at)
	forward.ErrorLog, forward.Transport = slog.NewLogLogger(slog.DiscardHandler, 0), transport
	server := httptest.NewUnstartedServer(wrap(forward))
	server.Config.ErrorLog = forward.ErrorLog
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}
