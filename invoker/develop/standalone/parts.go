package standalone

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/rest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/store"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
)

// openDatabase opens the embedded store, or an external database if configured, and
// creates the missing documents of a deployment.
func (s *Standalone) openDatabase(ctx context.Context) (*couchdb.Client, error) {
	var err error
	if s.opts.CouchDB != "" {
		s.info.Database, err = parseCouchDB(s.opts.CouchDB)
	} else {
		err = s.openStore()
	}
	if err != nil {
		return nil, err
	}
	prefix := cmp.Or(s.opts.DBPrefix, "whisk_local_")
	s.info.Database.Names = couchdb.Names{Whisks: prefix + "whisks", Activations: prefix + "activations", Subjects: prefix + "subjects"}
	c, err := couchdb.New(s.info.Database)
	if err != nil {
		return nil, err
	}
	s.onStop("database client", func(context.Context) error { c.Close(); return nil })
	if err := c.Deploy(ctx); err != nil {
		return nil, withFlag("--couchdb", s.opts.CouchDB, err)
	}
	s.info.Namespaces = namespaces(s.opts.Namespaces)
	for i := range s.info.Namespaces {
		if err := s.openNamespace(ctx, c, &s.info.Namespaces[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// openStore serves the embedded store on a free port of the loopback interface, with a
// password that is generated at each start.
func (s *Standalone) openStore() error {
	s.info.Database.User, s.info.Database.Password = "standalone", randomText(32)
	st, err := store.Open(store.Config{
		Path: filepath.Join(s.opts.Data, "store.db"), User: s.info.Database.User, Password: s.info.Database.Password, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.onStop("store", func(context.Context) error { return st.Close() })
	addr, _, err := s.serve("store server", 0, st)
	s.info.Database.URL = "http://" + addr
	return err
}

// maxConnections is the limit of open connections of each server, as of OpenWhisk's
// controller. Blocking calls hold a connection.
const maxConnections = 1024

// serve starts an HTTP server on a port of the loopback interface. It runs until Stop.
func (s *Standalone) serve(name string, port int, h http.Handler) (addr string, server *http.Server, err error) {
	ln, err := new(net.ListenConfig).Listen(s.closing, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return "", nil, fmt.Errorf("open %s: %w", name, err)
	}
	server = httpserver.New(h, controller.MaxWait, maxConnections)
	server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	s.answer(name, server, ln)
	return ln.Addr().String(), server, nil
}

// answer starts a server on a listener. It runs until Stop.
func (s *Standalone) answer(name string, server *http.Server, ln net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("server ended", "server", name, "error", err)
		}
	}()
	s.onStop(name, func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		if err != nil { // the time is up: close the remaining connections
			_ = server.Close()
		}
		<-done
		return err
	})
}

func (s *Standalone) serveAPI(ctx context.Context, db *couchdb.Client, m *activation.Manifest) error {
	bounds := activation.DefaultBounds()
	if s.opts.Bounds != nil {
		bounds = *s.opts.Bounds
	}
	if most := s.opts.MemoryMax; most > 0 {
		bounds.MemoryMB.Max = max(bounds.MemoryMB.Min, int(most/activation.MB))
	}
	handler := rest.New(rest.Config{Controller: s.controller, DB: db, Manifest: m, Bounds: bounds, Build: s.opts.Version, Log: s.log})
	addr, server, err := s.serve("API", s.opts.Port, rest.Guard(s.withConsole(handler)))
	if err != nil {
		return err
	}
	server.RegisterOnShutdown(s.endConsole) // streams of the console never end by themselves
	s.api = server
	s.info.APIHost = "http://" + addr
	if s.info.Runtime == runtimeDocker {
		if err := s.serveActions(ctx, addr); err != nil {
			s.log.Warn("actions cannot call the API: it listens on the loopback interface, which containers do not reach", "error", err)
		}
	}
	return s.writeSettings()
}

// serveActions serves the API to action containers, and to nobody else: on the gateway
// of their network, at the port of the API.
func (s *Standalone) serveActions(ctx context.Context, api string) error {
	d, err := docker.Connect(docker.Options{Host: s.opts.Docker})
	if err != nil {
		return err
	}
	defer d.Close()
	n, err := d.Network(ctx, cmp.Or(s.opts.Network, "bridge"))
	if err != nil {
		return err
	}
	if len(n.Gateways) == 0 {
		return fmt.Errorf("network %s has no gateway", n.Name)
	}
	_, port, err := net.SplitHostPort(api)
	if err != nil {
		return fmt.Errorf("read the API's address: %w", err)
	}
	at := net.JoinHostPort(n.Gateways[0].String(), port)
	ln, err := new(net.ListenConfig).Listen(s.closing, "tcp", at)
	if err != nil {
		return fmt.Errorf("open the API for actions: %w", err)
	}
	s.answer("API for actions", s.api, httpserver.Filter(ln, n.Has))
	s.actionsHost = "http://" + at
	return nil
}

func (s *Standalone) openBus() (*broker.Bus, error) {
	if err := CheckPeers(s.opts.Kafka, ""); err != nil {
		return nil, err
	}
	if s.info.Kafka = s.opts.Kafka; s.info.Kafka == "" {
		b, err := broker.Start(filepath.Join(s.opts.Data, "kafka"), 0, s.log)
		if err != nil {
			return nil, err
		}
		s.onStop("broker", func(context.Context) error { b.Close(); return nil })
		s.info.Kafka = b.Addr()
	}
	bus, err := broker.Dial(splitList(s.info.Kafka), s.log)
	if err != nil {
		return nil, err
	}
	s.onStop("bus", func(context.Context) error { bus.Close(); return nil })
	return bus, nil
}

// randomText returns a text of the given number of random bytes.
func randomText(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // rand.Read never fails
	return hex.EncodeToString(b)
}

// Free reports whether a port of the loopback interface has no listener.
func Free(port int) bool {
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && ln.Close() == nil
}
