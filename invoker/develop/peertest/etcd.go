package peertest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Etcd is an etcd server that belongs to one test, which may stop, freeze or wipe it.
type Etcd struct {
	Addr string // host:port, kept over restarts
	dir  string
	env  []string
}

// NeedEtcd returns the address of the etcd that tests share. It skips the test if
// there is none.
func NeedEtcd(t testing.TB) (addr string) {
	t.Helper()
	return Variable(t, "GPUWHISK_TEST_ETCD", "etcd.sh")
}

// NewEtcd starts a server that ends with the test. It skips the test unless a shared
// server runs, because tests install nothing by themselves.
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

// Wipe removes the data of a stopped server.
func (e *Etcd) Wipe(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(e.dir, "data")); err != nil {
		t.Fatal(err)
	}
}

// Freeze suspends the server, as an overloaded machine does.
func (e *Etcd) Freeze(t testing.TB) { e.signal(t, syscall.SIGSTOP) }

// Thaw resumes a frozen server.
func (e *Etcd) Thaw(t testing.TB) { e.signal(t, syscall.SIGCONT) }

func (e *Etcd) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := signal(e.dir, s); err != nil && !errors.Is(err, fs.ErrNotExist) { // a stopped server has no pid file
		t.Errorf("signal etcd: %v", err)
	}
}
