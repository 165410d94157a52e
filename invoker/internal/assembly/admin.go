package assembly

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/admin"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/tlsstore"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminHandler returns the admin handler. Until the invoker accepts work, /ping names the step
// that the start waits for, with a status that readiness probes treat as "not yet".
func (a *assembly) adminHandler() http.Handler {
	username, password := a.c.Admin.Login()
	o := admin.Options{
		Instance: a.instance.String(), Username: username, Password: password, LocalOnly: a.c.Admin.LocalOnly(),
		Header: a.c.Admin.TransactionHeader, Pings: a.intake, Pool: a.intake.pool(), Fallbacks: fallbackList{a}, Answered: a.steps.ObserveRequest,
	}
	if a.c.Admin.WellKnown() {
		o.Names = machineNames()
	}
	if a.c.Metrics.Served() {
		// Gauges are collected on demand and have a registry of their own: the
		// console reads the counters once a second.
		live := prometheus.NewRegistry()
		live.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), gauges{a})
		var all prometheus.Gatherer = prometheus.Gatherers{a.metrics, a.functions, live}
		if a.c.Metrics.Names() {
			all = a.kamon(all)
		}
		o.Metrics = promhttp.HandlerFor(all, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	}
	if a.c.Admin.Status {
		o.Status = func(ctx context.Context) (any, error) { return a.status(ctx) }
		o.Console = a.console()
	}
	open := admin.New(o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ping" && !a.ready.Load() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not ready: "+a.waiting(), http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/ping" {
			if why := a.cannot(); why != "" {
				w.Header().Set("Retry-After", "5")
				http.Error(w, "cannot work: "+why, http.StatusServiceUnavailable)
				return
			}
		}
		open.ServeHTTP(w, r)
	})
}

// machineNames are the names by which this machine is known to itself.
func machineNames() []string {
	full, _ := os.Hostname() // without one it has no name
	short, _, _ := strings.Cut(full, ".")
	return []string{full, short}
}

// cannot returns why the invoker cannot work although it is ready, or "".
func (a *assembly) cannot() string {
	if why, _ := a.unable.Load().(string); why != "" {
		return "container engine: " + why
	}
	if why := a.intake.away(); why != "" {
		return "Kafka: " + why
	}
	return ""
}

func (a *assembly) waiting() string {
	if s, _ := a.stage.Load().(string); s != "" {
		return s
	}
	return "stopping"
}

const (
	// maxConnections to the admin port are open at once, so that some descriptors stay for
	// the invoker's work.
	maxConnections = 256
	// maxScrapes of /metrics are answered at once, because each takes processor time.
	maxScrapes = 4
)

// certificateTrouble returns why the certificate of the admin port is not valid, or soon will
// not be, or "". Clients that check the certificate get no answer then, but work goes on.
func (a *assembly) certificateTrouble() string {
	if a.certificate == nil {
		return ""
	}
	_, text := tlsstore.Validity(a.certificate, time.Now())
	if text == "" {
		return ""
	}
	return "admin port: " + text + " (whisk.invoker.https.keystore-path)"
}

// openListener serves the admin endpoints from the beginning of the start, so that /status
// names the step that the start waits for.
func (a *assembly) openListener(ctx context.Context) (func(), error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(a.Host, strconv.Itoa(a.c.Admin.Port)))
	if err != nil {
		return nil, fmt.Errorf("open the admin port: %w (PORT names another)", err)
	}
	if addr, is := listener.Addr().(*net.TCPAddr); is && !addr.IP.IsLoopback() && a.c.Admin.WellKnown() {
		const keys = "whisk.invoker.username and whisk.invoker.password"
		if a.c.Admin.LocalOnly() {
			a.Log.Info("no login is set for the admin port: all but /ping and /metrics is served to this machine alone", "keys", keys)
		} else {
			a.login = "the login of the admin port is the one of OpenWhisk's sources, and the port is open to other hosts: set " + keys
			a.Log.Warn(a.login, "address", listener.Addr().String())
		}
	}
	// Actions have no business with the admin port.
	listener = httpserver.Filter(listener, func(from netip.Addr) bool {
		fromContainer := a.fromContainer.Load()
		return fromContainer == nil || !(*fromContainer)(from)
	})
	server := httpserver.New(a.adminHandler(), 0, maxConnections)
	server.RegisterOnShutdown(func() { close(a.closing) })
	done := make(chan struct{})
	serve := func() error { return server.Serve(listener) }
	if a.c.Admin.Protocol == "https" {
		t := a.c.Admin.TLS
		server.TLSConfig, err = tlsstore.Server(tlsstore.File{Path: t.KeystorePath, Password: t.KeystorePassword}, t.ClientAuth)
		if err != nil {
			_ = listener.Close()
			return nil, fmt.Errorf("open the key store of the admin port: %w (whisk.invoker.https.keystore-path)", err)
		}
		a.certificate = server.TLSConfig.Certificates[0].Leaf
		if why := a.certificateTrouble(); why != "" {
			a.Log.Warn(why)
		}
		serve = func() error { return server.ServeTLS(listener, "", "") }
	}
	go func() {
		defer close(done)
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			a.Log.Error("admin port closed", "error", err)
		}
	}()
	a.admin = listener.Addr().String()
	if a.Listening != nil {
		a.Listening(a.admin)
	}
	return func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		_ = server.Shutdown(stop)
		<-done
	}, nil
}
