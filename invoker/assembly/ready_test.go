package assembly

import (
	"net/http"
	"strings"
	"testing"
)

// An invoker that the database refuses is not ready, reports that at /ping and sends
// no ping; it is ready as soon as the database accepts it.
func TestNotReadyWithoutTheDatabase(t *testing.T) {
	bus, environ := deployment(t)
	couch, asked, open := lockedDatabase(t)
	pings := subscribe(t, bus)
	r := start(t, append(environ, couch...))
	for range 6 {
		<-asked
	}
	status, message := get(t, r.address+"/ping")
	if status != http.StatusServiceUnavailable || !strings.Contains(message, "CouchDB") || len(pings) != 0 {
		t.Errorf("refused: /ping: %d %q, %d pings", status, message, len(pings))
	}
	open()
	await(t, pings, `"isEnabled":true`)
	<-r.ready
	if status, message := get(t, r.address+"/ping"); status != http.StatusOK {
		t.Errorf("accepted: /ping: %d %q", status, message)
	}
	r.end(t)
}
