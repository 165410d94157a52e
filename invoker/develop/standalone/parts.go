package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/store"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
)

// openDatabase makes the embedded store unless there is a database elsewhere,
// and what is missing of a deployment in either.
func (s *Standalone) openDatabase(ctx context.Context) (*couchdb.Client, error) {
	prefix := cmp.Or(s.opts.DBPrefix, "whisk_local_")
	names := couchdb.Names{Whisks: prefix + "whisks", Activations: prefix + "activations", Subjects: prefix + "subjects"}
	var err error
	if s.opts.CouchDB != "" {
		s.info.Database, err = parseCouchDB(s.opts.CouchDB)
	} else {
		s.info.Database, err = s.openStore()
	}
	if err != nil {
		return nil, err
	}
	s.info.Database.Names = names
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

// openStore serves the embedded store on a free port of the loopback
// interface, guarded by a password that only the owner of the data directory
// can read.
func (s *Standalone) openStore() (couchdb.Config, error) {
	password, err := secret(filepath.Join(s.opts.Data, "store.password"))
	if err != nil {
		return couchdb.Config{}, err
	}
	const user = "standalone"
	st, err := store.Open(store.Config{
		Path: filepath.Join(s.opts.Data, "store.db"), User: user, Password: password, Log: s.log,
	})
	if err != nil {
		return couchdb.Config{}, err
	}
	s.onStop("store", func(context.Context) error { return st.Close() })
	addr, _, err := s.serve("store server", 0, st)
	if err != nil {
		return couchdb.Config{}, err
	}
	return couchdb.Config{URL: "http://" + addr, User: user, Password: password}, nil
}

// maxConnections to each server are served at once, as to OpenWhisk's controller: blocking
// calls hold them.
const maxConnections = 1024

// serve answers HTTP on a port of the loopback interface until Stop.
func (s *Standalone) serve(name string, port int, h http.Handler) (addr string, server *http.Server, err error) {
	ln, err := httpserver.Listen(s.closing, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), maxConnections)
	if err != nil {
		return "", nil, fmt.Errorf("open %s: %w", name, err)
	}
	server = httpserver.New(h, controller.MaxWait)
	server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("server ended", "server", name, "error", err)
		}
	}()
	s.onStop(name, func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		if err != nil { // time is up: cut the rest off
			_ = server.Close()
		}
		<-done
		return err
	})
	return ln.Addr().String(), server, nil
}

func (s *Standalone) openBus() (*broker.Bus, error) {
	s.info.Kafka = s.opts.Kafka
	if err := CheckPeers(s.opts.Kafka, ""); err != nil {
		return nil, err
	}
	if s.info.Kafka == "" {
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
