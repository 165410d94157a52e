package e2e

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// faultyStore serves the database of an environment through a handler that may
// spoil what passes, and gives the address of that. Only the invoker goes
// there: the rest of the installation keeps the whole database.
func (p *platform) faultyStore(environ []string, spoil func(http.Handler) http.Handler) (host, port string, err error) {
	const head = "CONFIG_whisk_couchdb_"
	target := &url.URL{Scheme: "http"}
	for _, one := range environ {
		switch name, value, _ := strings.Cut(one, "="); name {
		case head + "host":
			host = value
		case head + "port":
			port = value
		}
	}
	target.Host = net.JoinHostPort(host, port)
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorLog, forward.Transport = slog.NewLogLogger(slog.DiscardHandler, 0), transport
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	server := &http.Server{Handler: spoil(forward), ErrorLog: forward.ErrorLog}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	p.t.Cleanup(func() {
		_ = server.Close()
		<-done
		transport.CloseIdleConnections()
	})
	return net.SplitHostPort(listener.Addr().String())
}
