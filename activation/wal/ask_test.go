package wal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"
)

func TestRequestAsTheSystemHasIt(t *testing.T) {
	if r, a := unsafe.Sizeof(request{}), unsafe.Sizeof(answer{}); r != 64 || a != 32 {
		t.Errorf("a request has %d bytes, an answer %d", r, a)
	}
}

func anAsker(t *testing.T) *asker {
	t.Helper()
	a, err := newAsker()
	if err != nil {
		t.Skip("this system takes no requests:", err)
	}
	return a
}

// TestAsked: a file is synced, time and again, and what has no data to be synced
// is not answered for.
func TestAsked(t *testing.T) {
	a := anAsker(t)
	defer a.close()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 100 {
		if _, err := f.WriteString("more"); err != nil {
			t.Fatal(err)
		}
		if ok, err := a.sync(f); err != nil || !ok {
			t.Fatalf("%v, %v", err, ok)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if ok, err := a.sync(w); ok {
		t.Errorf("a pipe: %v", err)
	}
}

// TestSyncsWithoutAnAsker, and without one that fails, which is not tried again.
func TestSyncsWithoutAnAsker(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	a := anAsker(t)
	a.close()
	l := &Log{asker: a}
	if err := l.dataSync(f); err != nil || l.asker != nil || !l.unasked {
		t.Errorf("%v, asks on: %v, will ask: %v", err, l.asker != nil, !l.unasked)
	}
	if err := l.dataSync(f); err != nil || l.asker != nil {
		t.Errorf("%v, asks: %v", err, l.asker != nil)
	}
	f.Close()
	if err := l.dataSync(f); !errors.Is(err, syscall.EBADF) {
		t.Errorf("closed: %v", err)
	}
}
