package e2e

import (
	"net"
	"net/http"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// faultyStore serves the database of an environment through a handler that may fail, and
// returns its address. Only the invoker uses it; the rest of the installation keeps the
// intact database.
func (p *platform) faultyStore(environ []string, fail func(http.Handler) http.Handler) (host, port string, err error) {
	const head = "CONFIG_whisk_couchdb_"
	for _, one := range environ {
		switch name, value, _ := strings.Cut(one, "="); name {
		case head + "host":
			host = value
		case head + "port":
			port = value
		}
	}
	address := harness.Proxy(p.t, "http://"+net.JoinHostPort(host, port), fail)
	return net.SplitHostPort(strings.TrimPrefix(address, "http://"))
}
