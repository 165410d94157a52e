// Package fetch asks OpenWhisk's schedulers for activations, by gRPC. A scheduler
// hands an activation over once and for good: no call is given up while its
// answer can still come, and none is repeated.
//
// The package decides neither when to ask nor what becomes of an activation, and
// it does not look for schedulers: the invoker and activation/etcd do. It starts
// no goroutine; those of the channels belong to gRPC and end with Close.
package fetch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch/activationpb"
)

// The times that calls may take.
const (
	// fetchLimit is beyond all that a scheduler does: it keeps a call for one
	// second, waits five for the queue, and when it is cold or busy needs ten more.
	// Channels whose peer is gone end by their keep-alive, long before.
	fetchLimit = time.Minute
	// rescheduleLimit is the original's.
	rescheduleLimit = 10 * time.Second
)

// What callers tell apart. Any other error is a scheduler that was not reached,
// or whose answer was not.
var (
	// ErrRejected is a scheduler that answers with an error. Asked the same again, it
	// most likely does so again.
	ErrRejected = errors.New("scheduler rejects the call")
	// ErrUnreadable is an answer that cannot be read. If it was an activation,
	// nothing has it any more.
	ErrUnreadable = errors.New("answer of the scheduler cannot be read")
	// ErrClosed is a client that is closed.
	ErrClosed = errors.New("client of schedulers is closed")
)

// Config of a Client.
type Config struct {
	Log *slog.Logger
	// Payload is the longest content of an activation; zero means OpenWhisk's own.
	Payload activation.Size

	// dial replaces TCP in tests.
	dial func(ctx context.Context, address string) (net.Conn, error)
}

// Request is what a container asks for.
type Request struct {
	Queue     activation.Queue
	Container string
	// Warmed calls are served before others.
	Warmed bool
	// LastDuration is how long the run took that has just ended, nil when none
	// has. The scheduler orders containers by the mean of the last ten.
	LastDuration *time.Duration
	// Sent, when not nil, is called once: when the request has left, or cannot.
	Sent func()
}

// Fetch asks the scheduler at an endpoint for an activation, and waits for as long as it
// may answer: ctx ends the wait for a connection only. What is Fetched is the
// caller's alone.
func (c *Client) Fetch(ctx context.Context, at activation.Endpoint, r Request) (activation.FetchAnswer, error) {
	m := message(r.Queue, r.Container)
	m.Alive, m.Warmed = true, r.Warmed
	if r.LastDuration != nil {
		m.LastDuration = wrapperspb.Int64(r.LastDuration.Milliseconds())
	}
	return c.fetch(ctx, at, m, r.Sent)
}

// Leave says that a container fetches no more. The scheduler answers the calls
// that it has open, which are to be waited for, and this one with NoActivation. A
// later Fetch of the container would let the scheduler believe in it for ever.
func (c *Client) Leave(ctx context.Context, at activation.Endpoint, q activation.Queue, container string) (activation.FetchAnswer, error) {
	return c.fetch(ctx, at, message(q, container), nil)
}

// WarmUp opens a channel to a scheduler: the first call to one takes long.
func (c *Client) WarmUp(ctx context.Context, at activation.Endpoint) error {
	_, err := c.Fetch(ctx, at, Request{Queue: activation.WarmUpQueue(), Container: "warmUp"})
	return err
}

// Reschedule gives an activation back, as it came, to the end of its queue. When
// it reports false the scheduler has no such queue, or was not reached, and the
// activation is still the caller's. With an error nobody knows.
func (c *Client) Reschedule(ctx context.Context, at activation.Endpoint, q activation.Queue, message json.RawMessage) (bool, error) {
	var r *activationpb.RescheduleResponse
	var left atomic.Bool
	sent := func() { left.Store(true) }
	err := c.call(ctx, at, rescheduleLimit, func(ctx context.Context, client activationpb.ActivationServiceClient) (err error) {
		r, err = client.RescheduleActivation(context.WithValue(ctx, sentKey{}, sent), &activationpb.RescheduleRequest{
			InvocationNamespace: q.Namespace,
			Fqn:                 string(q.ActionJSON()),
			Rev:                 string(q.RevisionJSON()),
			ActivationMessage:   string(message),
		}, grpc.PerRPCCredentials(&once{}))
		return err
	})
	if err != nil && !left.Load() {
		c.cfg.Log.Debug("activation is not given back", "scheduler", address(at), "error", err)
		return false, nil
	}
	return r.GetIsRescheduled(), err
}

// message is a fetch that is not alive.
func message(q activation.Queue, container string) *activationpb.FetchRequest {
	transaction := activation.NewTransID((rand.Text() + rand.Text())[:32], time.Now().UnixMilli(), false)
	return &activationpb.FetchRequest{
		TransactionId:       string(transaction.JSON()),
		InvocationNamespace: q.Namespace,
		Fqn:                 string(q.ActionJSON()),
		Rev:                 string(q.RevisionJSON()),
		ContainerId:         container,
	}
}

func (c *Client) fetch(ctx context.Context, at activation.Endpoint, m *activationpb.FetchRequest, sent func()) (activation.FetchAnswer, error) {
	if sent == nil {
		sent = func() {}
	}
	sent = sync.OnceFunc(sent)
	defer sent()
	var r *activationpb.FetchResponse
	err := c.call(ctx, at, fetchLimit, func(ctx context.Context, client activationpb.ActivationServiceClient) (err error) {
		r, err = client.FetchActivation(context.WithValue(ctx, sentKey{}, sent), m, grpc.PerRPCCredentials(&once{}))
		return err
	})
	if err != nil {
		return activation.FetchAnswer{}, err
	}
	a, err := activation.DecodeFetchAnswer([]byte(r.GetActivationMessage()))
	if err != nil {
		return activation.FetchAnswer{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return a, nil
}

// call runs one call on a channel to the scheduler.
func (c *Client) call(ctx context.Context, at activation.Endpoint, limit time.Duration, do func(context.Context, activationpb.ActivationServiceClient) error) error {
	ch, err := c.acquire(at)
	if err != nil {
		return err
	}
	if err = ch.connected(ctx); err == nil {
		// From here on the scheduler may take an activation off its queue.
		calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		err = reason(do(calling, ch.client))
		cancel()
	}
	if err != nil {
		err = fmt.Errorf("call scheduler at %s: %w", address(at), err)
	}
	c.release(ch, err)
	return err
}

// reason tells the errors of a call apart.
func reason(err error) error {
	switch status.Code(err) {
	case codes.OK, codes.Canceled, codes.Unavailable, codes.DeadlineExceeded:
		return err
	case codes.ResourceExhausted: // longer than what is received
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return fmt.Errorf("%w: %w", ErrRejected, err)
}
