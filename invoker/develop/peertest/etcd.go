package peertest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Etcd is an etcd server of a test's own, which may be stopped, frozen or wiped.
type Etcd struct {
	Addr string // host:port, kept over restarts
	dir  string
	env  []string
}

// NeedEtcd gives the address of the etcd that tests share, or skips a test where
// there is none.
func NeedEtcd(t testing.TB) (addr string) {
	t.Helper()
	return Variable(t, "GPUWHISK_TEST_ETCD", "etcd.sh")
}

// NewEtcd starts a server that the test stops. It needs a shared one, so that tests
// install nothing by themselves.
func NewEtcd(t testing.TB) *Etcd {
	t.Helper()
	NeedEtcd(t)
	dir := t.TempDir()
	e := &Etcd{dir: dir, env: []string{"GPUWHISK_ETCD_DIR=" + dir, "GPUWHISK_KEEP=1"}}
	t.Cleanup(func() {
		e.Thaw(t)
		e.Stop(t)
	})
	e.Start(t)
	return e
}

// Start starts the server, or starts it again with its data and its address.
func (e *Etcd) Start(t testing.TB) {
	t.Helper()
	output, err := Script(e.env, "etcd", "start")
	if err != nil {
		t.Fatal(err)
	}
	e.Addr = output["GPUWHISK_TEST_ETCD"]
}

// Stop stops the server and keeps its data.
func (e *Etcd) Stop(t testing.TB) {
	t.Helper()
	if _, err := Script(e.env, "etcd", "stop"); err != nil {
		t.Error(err)
	}
}

// Wipe removes the data of a server that was stopped.
func (e *Etcd) Wipe(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(e.dir, "data")); err != nil {
		t.Fatal(err)
	}
}

// Freeze has the server stand still, as a machine that is overloaded does.
func (e *Etcd) Freeze(t testing.TB) { e.signal(t, syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (e *Etcd) Thaw(t testing.TB) { e.signal(t, syscall.SIGCONT) }

func (e *Etcd) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := signal(e.dir, s); err != nil && !errors.Is(err, fs.ErrNotExist) { // where it is stopped
		t.Errorf("signal etcd: %v", err)
	}
}
