// Package standalone runs a small OpenWhisk in one process, for development: the REST
// API of wsk and the client libraries, a small controller, an embedded Kafka broker, an
// embedded database, and the invoker. The invoker gets the same environment as from an
// operator in production.
//
// The packages below this directory do the work: rest, controller, couchdb with entity,
// broker and store. This package wires them and assigns addresses. It is not for users
// who do not trust each other: there is one machine, no throttling and, with the process
// runtime, no isolation.
//
// Its own goroutines are two HTTP servers and one that waits for the invoker's end. Stop
// ends them and, in reverse order of starting, everything else.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// StartInvoker starts an invoker with an environment ("NAME=value") and command line
// arguments. It returns while the invoker is starting. wait blocks until the invoker has
// ended, which it does after ctx is cancelled and it is drained.
type StartInvoker func(ctx context.Context, environ, args []string) (wait func() error, err error)

// Options configures a standalone OpenWhisk. The comment of a field names the meaning of
// its zero value.
type Options struct {
	Port    int    // of the REST API; 0: any free port
	Data    string // directory of all persistent data; required
	Runtime string // docker, process or auto; empty: auto

	GPUs int // simulated devices
	// Devices are real GPUs instead of simulated ones: "auto", or a list of UUIDs and
	// indexes. FakeDriver is the directory of a driver for functions of simulated GPUs,
	// empty for none. Shim is the shim's library, empty for the usual paths.
	Devices    string
	FakeDriver string
	Shim       string
	GPUMemory  activation.Size // of each; 0: the invoker's default
	Tokens     int             // concurrent runs on a device; 0: the invoker's default
	Policy     string          // of the scheduler; empty: the invoker's default
	Memory     string          // for all action containers, such as "2048m"; empty: 2048m
	MemoryMax  activation.Size // most memory of an action; 0: as in Bounds

	// Bounds limits the limits of actions. Nil means the bounds of a stock installation.
	Bounds *activation.Bounds

	Kafka    string // host:port of external brokers; empty: the embedded one
	CouchDB  string // URL with user and password; empty: the embedded store
	Docker   string // address of the Docker Engine; empty: its usual socket
	Network  string // of action containers, as in the invoker's setting; empty: bridge
	DBPrefix string // of the databases' names; empty: whisk_local_

	Namespaces []Namespace // besides guest, or guest with a key
	Manifest   []byte      // runtimes manifest; nil: the manifest of our own proxies
	Extra      []string    // further variables of the invoker, NAME=value

	// Admin returns the address of the invoker's admin port, "" before it is open. If
	// Admin is nil, the REST API has no console.
	Admin func() string

	Version string
	Invoker StartInvoker
	Log     *slog.Logger
}

// Info holds the addresses and the choices of an installation.
type Info struct {
	APIHost  string // http://127.0.0.1:PORT
	Data     string
	Kafka    string
	Database couchdb.Config // secret: contains the password
	Runtime  string         // docker or process
	Why      string         // reason for the choice of the runtime

	Namespaces []Namespace // guest and the requested namespaces
}

// Guest returns the namespace guest, which always exists.
func (i Info) Guest() Namespace { return i.Namespaces[0] }

// Standalone is a running installation.
type Standalone struct {
	opts    Options
	log     *slog.Logger
	info    Info
	closers []func(context.Context) error // in the order of opening

	api           *http.Server
	actionsHost   string // address of the API for actions in containers; empty: the common address
	controller    *controller.Controller
	adminPassword string          // of the invoker's own admin port
	closing       context.Context // cancelled when the API closes
	endConsole    context.CancelFunc

	endInvoker context.CancelFunc
	ended      chan error // receives the invoker's end and is closed then
}

// Start starts all parts. On an error it stops those that were started. ctx applies only
// to the start.
func Start(ctx context.Context, o Options) (*Standalone, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Standalone{adminPassword: randomText(32), opts: o, log: o.Log, ended: make(chan error, 1)}
	s.closing, s.endConsole = context.WithCancel(context.Background())
	s.info = Info{Data: o.Data}
	if err := s.start(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(err, s.Stop(stop))
	}
	return s, nil
}

func (s *Standalone) start(ctx context.Context) error {
	manifestText, manifest, err := s.chooseManifest(ctx)
	if err != nil {
		return err
	}
	kind, code, err := healthTest(s.info.Runtime, manifest)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.opts.Data, 0o700); err != nil {
		return fmt.Errorf("--data: create data directory: %w", err)
	}
	db, err := s.openDatabase(ctx)
	if err != nil {
		return err
	}
	bus, err := s.openBus()
	if err != nil {
		return err
	}
	s.controller = controller.New(controller.Config{
		ID: "0", Bus: bus, DB: db, HealthKind: kind, HealthCode: code, OwnInvoker: s.opts.Invoker != nil, Log: s.log,
	})
	s.onStop("controller", func(ctx context.Context) error { s.controller.Close(ctx); return nil })
	if err := s.controller.Start(ctx); err != nil {
		return withFlag("--kafka", s.opts.Kafka, err)
	}
	if err := s.serveAPI(ctx, db, manifest); err != nil {
		return err
	}
	return s.startInvoker(manifestText)
}

// withFlag prefixes the error of an external part with its flag. It omits the address,
// which may contain a password.
func withFlag(flag, address string, err error) error {
	if err == nil || address == "" {
		return err
	}
	return fmt.Errorf("%s: %w", flag, err)
}

func (s *Standalone) onStop(name string, end func(context.Context) error) {
	s.closers = append(s.closers, func(ctx context.Context) error {
		if err := end(ctx); err != nil {
			return fmt.Errorf("stop %s: %w", name, err)
		}
		return nil
	})
}

func (s *Standalone) startInvoker(manifest string) error {
	if s.opts.Invoker == nil {
		return nil // an external invoker serves the topics
	}
	env, err := s.environment(manifest)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	wait, err := s.opts.Invoker(ctx, env, []string{"--id", "0", "--uniqueName", nameOf(s.opts.Data)})
	if err != nil {
		cancel()
		return fmt.Errorf("start invoker: %w", err)
	}
	go func() {
		defer close(s.ended)
		err := wait()
		if ctx.Err() == nil { // it ended by itself: no result arrives any more
			s.controller.Cancel()
			if err == nil {
				err = errors.New("it gave no reason")
			}
		}
		s.ended <- err
	}()
	// The invoker must stop before the controller, which would miss its acks, but after
	// the API, whose callers still wait for results: see Stop.
	s.endInvoker = cancel
	return nil
}

// nameOf returns the invoker's unique name, by which it finds its containers again, even
// after a crash. Each data directory has its own name, so that two invokers on one host
// do not remove each other's containers.
func nameOf(data string) string {
	if whole, err := filepath.Abs(data); err == nil {
		data = whole
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, data)
	return fmt.Sprintf("standalone%08x", h.Sum32())
}

// Info returns the addresses and choices of the installation.
func (s *Standalone) Info() Info { return s.info }

// WaitReady blocks until an invoker is healthy or has ended.
func (s *Standalone) WaitReady(ctx context.Context) error {
	healthy := make(chan error, 1)
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { healthy <- s.controller.WaitHealthy(wait) }()
	select {
	case err := <-healthy:
		return err
	case err := <-s.ended:
		return fmt.Errorf("the invoker ended before it was ready: %w", err)
	}
}

// Ended returns a channel that receives the invoker's end, if it ends by itself, and is
// closed then.
func (s *Standalone) Ended() <-chan error { return s.ended }

// Stop ends everything in order: the API refuses new calls and answers the current ones,
// the invoker drains, then the rest closes. After ctx ends, Stop no longer waits for any
// step.
func (s *Standalone) Stop(ctx context.Context) error {
	var errs []error
	if s.api != nil {
		if err := s.api.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("drain API: %w", err))
		}
	}
	if s.endInvoker != nil {
		s.endInvoker()
		select {
		case err := <-s.ended:
			errs = append(errs, err)
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("drain invoker: %w", ctx.Err()))
		}
	}
	for _, end := range slices.Backward(s.closers) {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}
