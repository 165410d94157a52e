package fetch

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch/activationpb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

var hello = activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: "hello", Version: "0.0.3"}, "5-3f")

// fake is a scheduler whose answers come from a function.
type fake struct {
	activationpb.UnimplementedActivationServiceServer
	fetch      func(context.Context, *activationpb.FetchRequest) (*activationpb.FetchResponse, error)
	reschedule func(context.Context, *activationpb.RescheduleRequest) (*activationpb.RescheduleResponse, error)
}

func (f *fake) FetchActivation(ctx context.Context, r *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
	return f.fetch(ctx, r)
}

func (f *fake) RescheduleActivation(ctx context.Context, r *activationpb.RescheduleRequest) (*activationpb.RescheduleResponse, error) {
	return f.reschedule(ctx, r)
}

// answers returns a function that always gives the same answer.
func answers(a activation.FetchAnswer) func(context.Context, *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
	return func(context.Context, *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		return &activationpb.FetchResponse{ActivationMessage: string(a.Encode())}, nil
	}
}

// counted is a listener that counts its connections.
type counted struct {
	net.Listener
	mu    sync.Mutex
	count int
}

func (l *counted) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.count++
		l.mu.Unlock()
	}
	return conn, err
}

func (l *counted) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// listen opens a port of the loopback.
func listen(t testing.TB) (*counted, activation.Endpoint) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	return &counted{Listener: l}, endpoint(t, l)
}

func endpoint(t testing.TB, l net.Listener) activation.Endpoint {
	t.Helper()
	host, port, err := net.SplitHostPort(l.Addr().String())
	check.NoError(t, err)
	n, err := strconv.Atoi(port)
	check.NoError(t, err)
	return activation.Endpoint{Host: host, Port: n}
}

// serve runs a scheduler until the test ends.
func serve(t testing.TB, f *fake) (*counted, activation.Endpoint) {
	t.Helper()
	l, at := listen(t)
	s := grpc.NewServer()
	activationpb.RegisterActivationServiceServer(s, f)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Errorf("the fake scheduler ended: %v", err)
		}
	})
	return l, at
}

func client(t *testing.T, cfg Config) *Client {
	t.Helper()
	cfg.Log = peertest.Log(t)
	c := New(cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}
