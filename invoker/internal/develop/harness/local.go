package harness

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
)

// Local is an invoker in this process, as a standalone OpenWhisk starts it.
type Local struct {
	Options assembly.Options // the options that a test sets; the default logs nothing
	admin   atomic.Pointer[Admin]
}

// Start starts the invoker. It returns when the invoker's administration page is open.
func (l *Local) Start(ctx context.Context, environ, args []string) (wait func() error, err error) {
	admin, listening, ended := AdminOf(environ), make(chan string, 1), make(chan error, 1)
	o := l.Options
	o.Log, o.Host, o.Version = cmp.Or(o.Log, slog.New(slog.DiscardHandler)), "127.0.0.1", "test"
	o.Listening = func(addr string) { listening <- addr }
	go func() { ended <- Run(ctx, environ, args, o) }()
	select {
	case addr := <-listening:
		admin.URL = "http://" + addr
		l.admin.Store(&admin)
		return func() error { return <-ended }, nil
	case err := <-ended:
		return nil, errors.Join(errors.New("the invoker ended at its start"), err)
	}
}

// Admin returns the administration page. Its address is empty until the page is open.
func (l *Local) Admin() Admin {
	if admin := l.admin.Load(); admin != nil {
		return *admin
	}
	return Admin{}
}

// Addr returns the host and port of the administration page.
func (l *Local) Addr() string { return strings.TrimPrefix(l.Admin().URL, "http://") }

// Standalone starts a whole OpenWhisk that runs until the test ends. Actions are
// processes, and the invoker runs in this process.
func Standalone(t testing.TB, o standalone.Options) (*standalone.Standalone, *Local) {
	t.Helper()
	l := &Local{}
	o.Data, o.Runtime, o.Version, o.Invoker, o.Admin = t.TempDir(), "process", "test", l.Start, l.Addr
	ctx, cancel := context.WithTimeout(t.Context(), peertest.WaitLimit)
	defer cancel()
	s, err := standalone.Start(ctx, o)
	check.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), peertest.WaitLimit)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	check.NoError(t, s.WaitReady(ctx))
	return s, l
}
