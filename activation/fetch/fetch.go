// Package fetch asks OpenWhisk's schedulers for activations, by gRPC. A scheduler hands
// over an activation once and then forgets it. A call is therefore never abandoned
// while its answer can still arrive, and never repeated.
//
// The invoker decides when to ask and handles the activations; activation/etcd finds
// the schedulers. The package starts no goroutines of its own. gRPC's goroutines end
// with Close.
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

// The time limits of calls.
const (
	// fetchLimit is longer than a scheduler ever takes: it holds a call for one second,
	// waits five seconds for the queue, and needs up to ten more when it is cold or
	// busy. A channel to a vanished peer ends long before, by its keep-alive.
	fetchLimit = time.Minute
	// rescheduleLimit is the original invoker's limit.
	rescheduleLimit = 10 * time.Second
)

// The errors that callers distinguish. Any other error means that the scheduler could
// not be reached, or that its answer did not arrive.
var (
	// ErrRejected means that the scheduler answered with an error. A repeated call would
	// most likely fail again.
	ErrRejected = errors.New("scheduler rejects the call")
	// errClosed is returned by calls of a closed client.
	errClosed = errors.New("client of schedulers is closed")
)

// Config of a Client.
type Config struct {
	Log *slog.Logger
	// Payload is the longest content of an activation; zero means OpenWhisk's default.
	Payload activation.Size

	// dial replaces TCP in tests.
	dial func(ctx context.Context, address string) (net.Conn, error)
}

// Fetch asks the scheduler at an endpoint for an activation. It blocks as long as an
// answer may arrive; ctx ends only the wait for a connection. A fetched activation
// belongs to the caller alone.
func (c *Client) Fetch(ctx context.Context, at activation.Endpoint, r activation.FetchRequest) (activation.FetchAnswer, error) {
	m := message(r.Queue, r.Container)
	m.Alive, m.Warmed = true, r.Warmed
	if r.LastDuration != nil {
		m.LastDuration = wrapperspb.Int64(r.LastDuration.Milliseconds())
	}
	return c.fetch(ctx, at, m, r.Sent)
}

// Leave tells the scheduler that a container will not fetch again. The scheduler
// answers this call and the container's open calls with NoActivation; the caller must
// wait for the open calls. After a later Fetch of the container the scheduler would
// count the container for ever.
func (c *Client) Leave(ctx context.Context, at activation.Endpoint, q activation.Queue, container string) (activation.FetchAnswer, error) {
	return c.fetch(ctx, at, message(q, container), nil)
}

// WarmUp opens a channel to a scheduler, because the first call takes long.
func (c *Client) WarmUp(ctx context.Context, at activation.Endpoint) error {
	_, err := c.Fetch(ctx, at, activation.FetchRequest{Queue: activation.WarmUpQueue(), Container: "warmUp"})
	return err
}

// Reschedule returns an unchanged activation to the end of its queue. It returns false
// if the scheduler has no such queue or cannot be reached; the activation then still
// belongs to the caller. After an error it is unknown who has the activation.
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

// message returns a fetch request whose Alive is not set.
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
		return activation.FetchAnswer{}, fmt.Errorf("%w: %w", activation.ErrUnreadable, err)
	}
	return a, nil
}

// call makes one call on a channel to the scheduler.
func (c *Client) call(ctx context.Context, at activation.Endpoint, limit time.Duration, do func(context.Context, activationpb.ActivationServiceClient) error) error {
	ch, err := c.acquire(at)
	if err != nil {
		return err
	}
	if err = ch.connected(ctx); err == nil {
		// From here on the scheduler may remove an activation from its queue.
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

// reason translates gRPC's error of a call into one of ours.
func reason(err error) error {
	switch status.Code(err) {
	case codes.OK, codes.Canceled, codes.Unavailable, codes.DeadlineExceeded:
		return err
	case codes.ResourceExhausted: // the answer exceeds our limit
		return fmt.Errorf("%w: %w", activation.ErrUnreadable, err)
	}
	return fmt.Errorf("%w: %w", ErrRejected, err)
}
