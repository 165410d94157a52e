package assembly

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// An invoker that the database refuses is not ready, reports that at /ping and sends
// no ping; it is ready as soon as the database accepts it.
func TestNotReadyWithoutTheDatabase(t *testing.T) {
	bus, environ := deployment(t)
	var open atomic.Bool
	asked := make(chan struct{}, 100)
	couch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		if !open.Load() {
			http.Error(w, `{"error":"unauthorized","reason":"Name or password is incorrect."}`, http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"total_rows":0,"offset":0,"rows":[]}`))
	}))
	t.Cleanup(couch.Close)
	u, err := url.Parse(couch.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(u.Host)
	environ = append(environ, "CONFIG_whisk_couchdb_host="+host, "CONFIG_whisk_couchdb_port="+port)
	pings := subscribe(t, bus)
	r := start(t, environ)
	for range 6 {
		<-asked
	}
	status, message := get(t, r.address+"/ping")
	if status != http.StatusServiceUnavailable || !strings.Contains(message, "CouchDB") || len(pings) != 0 {
		t.Errorf("refused: /ping: %d %q, %d pings", status, message, len(pings))
	}
	open.Store(true)
	await(t, pings, `"isEnabled":true`)
	<-r.ready
	if status, message := get(t, r.address+"/ping"); status != http.StatusOK {
		t.Errorf("accepted: /ping: %d %q", status, message)
	}
	r.end(t)
}
