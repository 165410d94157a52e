package zookeeper

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func ptr(n int) *int { return &n }

func TestAssignRefusesBadRequests(t *testing.T) {
	for _, tt := range []struct {
		r    Request
		want string
	}{
		{Request{Hosts: "h:1", Name: ""}, "not usable"},
		{Request{Hosts: "h:1", Name: "a/b"}, "not usable"},
		{Request{Hosts: "h:1", Name: ".."}, "not usable"},
		{Request{Hosts: "h:1", Name: "a\x00"}, "not usable"},
		{Request{Hosts: "", Name: "a"}, "expected host:port"},
		{Request{Hosts: ":2181", Name: "a"}, "expected host:port"},
		{Request{Hosts: "h:", Name: "a"}, "expected host:port"},
		{Request{Hosts: "h:1", Name: "a", Overwrite: ptr(-1)}, "expected an integer"},
	} {
		_, err := Assign(t.Context(), tt.r)
		check.ErrorContains(t, err, tt.want, "%+v", tt.r)
	}
}

// A server that takes a connection while it starts may never answer on it:
// another is made, long before an operator intervenes.
func TestASilentServerIsAskedAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*answerLimit)
	defer cancel()
	again := make(chan struct{})
	var server sync.WaitGroup
	server.Go(func() {
		for range 2 {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
		close(again)
	})
	defer server.Wait()
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		_, err := Assign(ctx, Request{Hosts: l.Addr().String(), Name: "a"})
		done <- err
	}()
	select {
	case <-again:
		cancel()
	case <-ctx.Done():
		t.Error("no other connection was tried")
	}
	check.That(t, <-done != nil)
	check.That(t, ctx.Err() != nil)
}

// No server listens: Assign logs that once and leaves with its context.
func TestAssignEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	var log strings.Builder
	_, err = Assign(ctx, Request{Hosts: l.Addr().String(), Name: "a", Log: slog.New(slog.NewTextHandler(&log, nil))})
	check.ErrorIs(t, err, context.DeadlineExceeded)
	if n := strings.Count(log.String(), "cannot be reached"); n > 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}
