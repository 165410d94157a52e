package replay

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// newKafka starts an Apache Kafka that ends with the test.
func newKafka(t *testing.T, settings ...string) *peertest.Kafka {
	t.Helper()
	k, err := peertest.NewKafka(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// The faults of a database.
const (
	noFault int32 = iota
	failing
	slow
	gone
)

// front stands before the database, for invokers alone.
type front struct {
	url   string
	fault atomic.Int32
}

// slowness is what each request takes of a database that is slow.
const slowness = 3 * time.Second

func newFront(t *testing.T, database string, seen *tally) *front {
	t.Helper()
	f := &front{}
	f.url = harness.Proxy(t, database, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fault := f.fault.Load()
			if fault != noFault {
				seen.add("requests that met a failing database", 1)
			}
			switch fault {
			case failing:
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, `{"error":"internal_server_error","reason":"chaos"}`)
				return
			case slow:
				select {
				case <-time.After(slowness):
				case <-r.Context().Done():
				}
			case gone:
				panic(http.ErrAbortHandler) // hangs up
			}
			next.ServeHTTP(w, r)
		})
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
