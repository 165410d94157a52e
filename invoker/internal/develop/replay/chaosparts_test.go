package replay

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// slowly has each request take the time of a database that is slow.
func slowly(w http.ResponseWriter, r *http.Request, next http.Handler) {
	select {
	case <-time.After(3 * time.Second):
	case <-r.Context().Done():
	}
	next.ServeHTTP(w, r)
}

// disk is the state directory of a fixture, on a file system of a few MiB.
type disk struct{ dir string }

// newDisk mounts one, which takes root.
func newDisk(t testing.TB, dir string) (*disk, error) {
	t.Helper()
	check.NoError(t, os.MkdirAll(dir, 0o700))
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
