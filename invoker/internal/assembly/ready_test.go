package assembly

import (
	"net/http"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
	check.Equal(t, status, http.StatusServiceUnavailable, "refused: %q", message)
	check.Contains(t, message, "CouchDB")
	check.Equal(t, len(pings), 0)
	open()
	await(t, pings, `"isEnabled":true`)
	<-r.ready
	status, message = get(t, r.address+"/ping")
	check.Equal(t, status, http.StatusOK, "accepted: %q", message)
	r.end(t)
}
