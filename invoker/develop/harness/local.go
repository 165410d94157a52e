package harness

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
)

// Local is an invoker in this process, as a standalone OpenWhisk starts it.
type Local struct{ admin atomic.Pointer[Admin] }

// Start starts it.
func (l *Local) Start(ctx context.Context, environ, args []string) (wait func() error, err error) {
	admin, ended := AdminOf(environ), make(chan error, 1)
	go func() {
		ended <- Run(ctx, environ, args, assembly.Options{
			Log: slog.New(slog.DiscardHandler), Host: "127.0.0.1", Version: "test",
			Listening: func(addr string) {
				admin.URL = "http://" + addr
				l.admin.Store(&admin)
			},
		})
	}()
	return func() error { return <-ended }, nil
}

// Admin is its administration page, without an address before that is open.
func (l *Local) Admin() Admin {
	if admin := l.admin.Load(); admin != nil {
		return *admin
	}
	return Admin{}
}

// Addr is the page's host and port.
func (l *Local) Addr() string { return strings.TrimPrefix(l.Admin().URL, "http://") }

// Standalone is a whole OpenWhisk until the end of the test, with actions as
// processes and an invoker in this one.
func Standalone(t testing.TB, o standalone.Options) (*standalone.Standalone, *Local) {
	t.Helper()
	l := &Local{}
	o.Data, o.Runtime, o.Version, o.Invoker, o.Admin = t.TempDir(), "process", "test", l.Start, l.Addr
	ctx, cancel := context.WithTimeout(t.Context(), peertest.WaitLimit)
	defer cancel()
	s, err := standalone.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), peertest.WaitLimit)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	if err := s.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return s, l
}
