package assembly

import "testing"

// An invoker that stops while it has nothing to do is gone within milliseconds. Its
// last ping is sent all the same, or controllers would send it work for another
// ten seconds.
func TestIdleInvokerAnnouncesItsStop(t *testing.T) {
	bus, environ := deployment(t)
	pings := subscribe(t, bus)
	for range 5 {
		r := start(t, environ)
		await(t, pings, `"isEnabled":true`)
		r.end(t)
		await(t, pings, `"isEnabled":false`)
	}
}
