package replay

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// bus is a broker of a test's own that can be lost and got back.
type bus interface {
	lose()
	back()
}

// ownBus is the embedded broker.
type ownBus struct{ w *fixture }

func (b ownBus) lose() { b.w.broker.Close() }
func (b ownBus) back() { b.w.startBroker() }

// apacheBus is an Apache Kafka. It is lost as a machine is: killed.
type apacheBus struct {
	t *testing.T
	k *peertest.Kafka
}

func newApacheBus(t *testing.T, settings ...string) (b apacheBus, addr string) {
	t.Helper()
	k, err := peertest.NewKafka(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return apacheBus{t, k}, k.Addr
}

func (b apacheBus) lose() {
	b.t.Helper()
	if err := b.k.Kill(); err != nil {
		b.t.Fatal(err)
	}
}

func (b apacheBus) back() {
	b.t.Helper()
	if err := b.k.Start(); err != nil {
		b.t.Fatal(err)
	}
}

// newPouch starts a server of the CouchDB API that is not ours.
func newPouch(t *testing.T) (address string) {
	t.Helper()
	address, stop, err := peertest.NewPouchDB(storeUser, storePassword)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	return address
}

// moods of a database.
const (
	wellMood int32 = iota
	failingMood
	slowMood
	goneMood
)

// front stands before the database, for invokers alone.
type front struct {
	server *http.Server
	url    string
	mood   atomic.Int32
	struck atomic.Int64 // requests that met another mood than well
}

// slowness is what each request takes of a database that is slow.
const slowness = 3 * time.Second

func newFront(t *testing.T, database string) *front {
	t.Helper()
	target, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorLog, forward.Transport = slog.NewLogLogger(slog.DiscardHandler, 0), transport
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{url: "http://" + listener.Addr().String()}
	f.server = &http.Server{ErrorLog: forward.ErrorLog, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mood := f.mood.Load()
		if mood != wellMood {
			f.struck.Add(1)
		}
		switch mood {
		case failingMood:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"error":"internal_server_error","reason":"chaos"}`)
			return
		case slowMood:
			select {
			case <-time.After(slowness):
			case <-r.Context().Done():
			}
		case goneMood:
			panic(http.ErrAbortHandler) // hangs up
		}
		forward.ServeHTTP(w, r)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = f.server.Serve(listener) }()
	t.Cleanup(func() {
		_ = f.server.Close()
		<-done
		transport.CloseIdleConnections()
	})
	return f
}

// disk is the state directory of a fixture, on a file system of a few MiB.
type disk struct{ dir string }

// newDisk mounts one, which takes root.
func newDisk(t *testing.T, dir string) (*disk, error) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=700"); err != nil {
		return nil, fmt.Errorf("no file system of a bounded size: %w", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return &disk{dir}, nil
}

func (d *disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill leaves not a byte.
func (d *disk) fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<16); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) free() error { return os.Remove(d.ballast()) }
