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

// adminPort is the HTTP listener of the invoker.
type adminPort struct {
	*overview
	gpus       *gpus
	containers *actionEngine
}

// handler returns the admin handler. Until the invoker accepts work, /ping names the step
// that the start waits for, with a status that readiness probes treat as "not yet".
func (p *adminPort) handler() http.Handler {
	username, password := p.c.Admin.Login()
	o := admin.Options{
		Instance: p.instance.String(), Username: username, Password: password, LocalOnly: p.c.Admin.LocalOnly(),
		Header: p.c.Admin.TransactionHeader, Pings: p.intake, Pool: p.intake.pool(), Fallbacks: fallbackList{p.gpus}, Answered: p.steps.ObserveRequest,
	}
	if p.c.Admin.WellKnown() {
		o.Names = machineNames()
	}
	if p.c.Metrics.Served() {
		// Gauges are collected on demand and have a registry of their own: the
		// console reads the counters once a second.
		live := prometheus.NewRegistry()
		live.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), gauges{p.overview})
		var all prometheus.Gatherer = prometheus.Gatherers{p.metrics, p.functions, live}
		if p.c.Metrics.Names() {
			all = p.kamon(all)
		}
		o.Metrics = promhttp.HandlerFor(all, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	}
	if p.c.Admin.Status {
		o.Status = func(ctx context.Context) (any, error) { return p.status(ctx) }
		o.Console = p.console()
	}
	open := admin.New(o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ping" && !p.ready.Load() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not ready: "+p.waiting(), http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/ping" {
			if why := p.cannot(); why != "" {
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
func (o *overview) cannot() string {
	if why, _ := o.unable.Load().(string); why != "" {
		return "container engine: " + why
	}
	if why := o.intake.away(); why != "" {
		return "Kafka: " + why
	}
	return ""
}

func (c *condition) waiting() string {
	if s, _ := c.stage.Load().(string); s != "" {
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
func (c *condition) certificateTrouble() string {
	if c.certificate == nil {
		return ""
	}
	_, text := tlsstore.Validity(c.certificate, time.Now())
	if text == "" {
		return ""
	}
	return "admin port: " + text + " (whisk.invoker.https.keystore-path)"
}

// open serves the admin endpoints from the beginning of the start, so that /status
// names the step that the start waits for.
func (p *adminPort) open(ctx context.Context) (func(), error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(p.Host, strconv.Itoa(p.c.Admin.Port)))
	if err != nil {
		return nil, fmt.Errorf("open the admin port: %w (PORT names another)", err)
	}
	if addr, is := listener.Addr().(*net.TCPAddr); is && !addr.IP.IsLoopback() && p.c.Admin.WellKnown() {
		const keys = "whisk.invoker.username and whisk.invoker.password"
		if p.c.Admin.LocalOnly() {
			p.Log.Info("no login is set for the admin port: all but /ping and /metrics is served to this machine alone", "keys", keys)
		} else {
			p.login = "the login of the admin port is the one of OpenWhisk's sources, and the port is open to other hosts: set " + keys
			p.Log.Warn(p.login, "address", listener.Addr().String())
		}
	}
	// Connections from action containers are refused.
	listener = httpserver.Filter(listener, func(from netip.Addr) bool {
		fromContainer := p.containers.fromContainer.Load()
		return fromContainer == nil || !(*fromContainer)(from)
	})
	server := httpserver.New(p.handler(), 0, maxConnections)
	server.RegisterOnShutdown(func() { close(p.closing) })
	done := make(chan struct{})
	serve := func() error { return server.Serve(listener) }
	if p.c.Admin.Protocol == "https" {
		t := p.c.Admin.TLS
		server.TLSConfig, err = tlsstore.Server(tlsstore.File{Path: t.KeystorePath, Password: t.KeystorePassword}, t.ClientAuth)
		if err != nil {
			_ = listener.Close()
			return nil, fmt.Errorf("open the key store of the admin port: %w (whisk.invoker.https.keystore-path)", err)
		}
		p.certificate = server.TLSConfig.Certificates[0].Leaf
		if why := p.certificateTrouble(); why != "" {
			p.Log.Warn(why)
		}
		serve = func() error { return server.ServeTLS(listener, "", "") }
	}
	go func() {
		defer close(done)
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			p.Log.Error("admin port closed", "error", err)
		}
	}()
	p.address = listener.Addr().String()
	if p.Listening != nil {
		p.Listening(p.address)
	}
	return func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		_ = server.Shutdown(stop)
		<-done
	}, nil
}
