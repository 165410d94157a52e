package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch/activationpb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// oneMessage returns a small activation with the content.
func oneMessage(content string) json.RawMessage {
	m := activation.Message{
		TransID: activation.NewTransID("t", 1, false), Action: hello.Action, Revision: hello.Revision,
		User: activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}}, ActivationID: "2b1f0c9e8d7a4b6c9a0d1e2f3a4b5c6d",
		Controller: "0", Content: json.RawMessage(content),
	}
	return m.Encode()
}

func TestFetchAnswers(t *testing.T) {
	f := &fake{}
	_, at := serve(t, f)
	c := client(t, Config{})
	for _, want := range []activation.FetchAnswer{
		activation.NewFetchAnswer(oneMessage(`{"a":1}`)), {Kind: activation.NoActivation}, {Kind: activation.NoQueue}, {Kind: activation.ActionMismatch},
	} {
		f.fetch = answers(want)
		got, err := c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello, Container: "c"})
		check.NoError(t, err)
		check.Equal(t, got.Kind, want.Kind)
		check.Equal(t, string(got.JSON()), string(want.JSON()), "%s holds %s, want %s", got.Kind, got.JSON(), want.JSON())
	}
	states := c.States()
	check.Equal(check.Must(t), len(states), 1)
	check.Equal(t, states[0].Calls, 0)
	check.Equal(t, states[0].Channels, 1)
	check.That(t, states[0].OK(), "the states are %+v", states)
}

// TestFetchErrors: callers can distinguish a refusal from an unreachable scheduler.
func TestFetchErrors(t *testing.T) {
	f := &fake{}
	_, at := serve(t, f)
	c := client(t, Config{})
	fails := func(err error) func(context.Context, *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		return func(context.Context, *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
			return nil, err
		}
	}
	fetch := func() error {
		_, err := c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello, Container: "c"})
		return err
	}
	f.fetch = fails(status.Error(codes.Internal, ""))
	check.ErrorIs(t, fetch(), ErrRejected, "a refusal")
	f.fetch = fails(status.Error(codes.Unavailable, ""))
	err := fetch()
	check.That(check.Must(t), err != nil, "an end is %v", err)
	check.That(t, !errors.Is(err, ErrRejected), "an end is %v", err)
	check.That(t, !errors.Is(err, activation.ErrUnreadable), "an end is %v", err)
	states := c.States()
	check.Equal(check.Must(t), len(states), 1)
	check.That(t, !states[0].OK(), "the states are %+v", states)
	const secret = "hush-hush"
	f.fetch = func(context.Context, *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		return &activationpb.FetchResponse{ActivationMessage: `{"message":{"activationId":"1","content":"` + secret + `"}}`}, nil
	}
	err = fetch()
	check.ErrorIs(t, err, activation.ErrUnreadable, "an unreadable message")
	check.Lacks(t, err.Error(), secret, "an unreadable message")
	states = c.States()
	check.Equal(check.Must(t), len(states), 1, "after an answer the states")
	check.That(t, states[0].OK(), "after an answer the states are %+v", states)
	none, nowhere := listen(t)
	none.Close()
	_, err = c.Fetch(t.Context(), nowhere, activation.FetchRequest{Queue: hello, Container: "c"})
	check.That(check.Must(t), err != nil, "without a scheduler it is %v", err)
	check.That(t, !errors.Is(err, ErrRejected), "without a scheduler it is %v", err)
}

// TestFetchTakesLargeActivations: the limit of an answer follows Config.Payload.
func TestFetchTakesLargeActivations(t *testing.T) {
	f := &fake{fetch: answers(activation.NewFetchAnswer(oneMessage(`"` + strings.Repeat("x", 6<<20) + `"`)))}
	_, at := serve(t, f)
	large := client(t, Config{Payload: 6 * activation.MB})
	_, err := large.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello, Container: "c"})
	check.NoError(t, err)
	small := client(t, Config{})
	_, err = small.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello, Container: "c"})
	check.ErrorIs(t, err, activation.ErrUnreadable, "beyond the limit it")
}

// TestFetchOutlivesItsContext: once the scheduler may answer, only the answer ends a
// call.
func TestFetchOutlivesItsContext(t *testing.T) {
	asked, answer := make(chan bool), make(chan bool)
	f := &fake{fetch: func(ctx context.Context, _ *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		close(asked)
		<-answer
		if err := ctx.Err(); err != nil {
			t.Errorf("the call was given up: %v", err)
		}
		return answers(activation.NewFetchAnswer(oneMessage(`{}`)))(ctx, nil)
	}}
	_, at := serve(t, f)
	c := client(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan activation.FetchAnswer)
	go func() {
		a, err := c.Fetch(ctx, at, activation.FetchRequest{Queue: hello, Container: "c"})
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	check.Receive(t, asked)
	cancel()
	close(answer)
	a := check.Receive(t, got)
	check.Equal(t, a.Kind, activation.Fetched)
	check.That(t, a.Message != nil, "got %s", a)
	_, err := c.Fetch(ctx, activation.Endpoint{Host: "127.0.0.1", Port: 1}, activation.FetchRequest{Queue: hello})
	check.ErrorIs(t, err, context.Canceled, "before there is a connection it")
}

// TestLeave: the container's open call and the call of Leave are both answered.
func TestLeave(t *testing.T) {
	open, left := make(chan bool), make(chan bool)
	f := &fake{fetch: func(ctx context.Context, r *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		if r.Alive {
			close(open)
			<-left
		} else {
			check.Equal(t, r.ContainerId, "c")
			close(left)
		}
		return answers(activation.FetchAnswer{Kind: activation.NoActivation})(ctx, r)
	}}
	_, at := serve(t, f)
	c := client(t, Config{})
	done := make(chan error)
	go func() {
		_, err := c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello, Container: "c"})
		done <- err
	}()
	check.Receive(t, open)
	a, err := c.Leave(t.Context(), at, hello, "c")
	check.NoError(t, err)
	check.Equal(t, a.Kind, activation.NoActivation)
	check.NoError(t, check.Receive(t, done), "the open call ended")
}

func TestReschedule(t *testing.T) {
	want := oneMessage(`{"a":1}`)
	f := &fake{}
	_, at := serve(t, f)
	c := client(t, Config{})
	for _, ok := range []bool{true, false} {
		f.reschedule = func(_ context.Context, r *activationpb.RescheduleRequest) (*activationpb.RescheduleResponse, error) {
			check.Equal(t, r.ActivationMessage, string(want), "gave back")
			return &activationpb.RescheduleResponse{IsRescheduled: ok}, nil
		}
		got, err := c.Reschedule(t.Context(), at, hello, want)
		check.NoError(t, err)
		check.Equal(t, got, ok)
	}
	f.reschedule = func(context.Context, *activationpb.RescheduleRequest) (*activationpb.RescheduleResponse, error) {
		return nil, status.Error(codes.Unavailable, "")
	}
	ok, err := c.Reschedule(t.Context(), at, hello, want)
	check.That(check.Must(t), err != nil, "got %v, %v", ok, err)
	check.That(t, !ok, "got %v, %v", ok, err)
}

func TestWarmUp(t *testing.T) {
	f := &fake{fetch: func(ctx context.Context, r *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		check.Equal(t, r.InvocationNamespace, "whisk.system")
		check.Equal(t, r.Fqn, `{"name":"warmUp","path":"whisk.system"}`)
		check.Equal(t, r.Rev, "null")
		return answers(activation.FetchAnswer{Kind: activation.NoActivation})(ctx, r)
	}}
	_, at := serve(t, f)
	check.NoError(t, client(t, Config{}).WarmUp(t.Context(), at))
}

func TestClosedClient(t *testing.T) {
	_, at := serve(t, &fake{fetch: answers(activation.FetchAnswer{Kind: activation.NoActivation})})
	c := client(t, Config{})
	_, err := c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello})
	check.NoError(t, err)
	check.NoError(t, c.Close())
	_, err = c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello})
	check.ErrorIs(t, err, errClosed)
}

// TestLastDuration is absent unless a run has ended.
func TestLastDuration(t *testing.T) {
	var got *int64
	f := &fake{fetch: func(ctx context.Context, r *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		got = nil
		if r.LastDuration != nil {
			got = &r.LastDuration.Value
		}
		return answers(activation.FetchAnswer{Kind: activation.NoActivation})(ctx, r)
	}}
	_, at := serve(t, f)
	c := client(t, Config{})
	_, err := c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello})
	check.NoError(t, err, "without a run it")
	check.That(t, got == nil, "without a run it is %v, %v", got, err)
	for _, d := range []time.Duration{0, 1500 * time.Millisecond} {
		_, err := c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello, LastDuration: &d})
		check.NoError(t, err, "after %s it", d)
		check.That(check.Must(t), got != nil, "after %s it is %v, %v", d, got, err)
		check.Equal(t, *got, d.Milliseconds(), "after %s it", d)
	}
}
