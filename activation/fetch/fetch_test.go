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
)

// oneMessage is a small activation.
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
		got, err := c.Fetch(t.Context(), at, Request{Queue: hello, Container: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if got.Kind != want.Kind {
			t.Errorf("got %s, want %s", got.Kind, want.Kind)
		}
		if string(got.JSON()) != string(want.JSON()) {
			t.Errorf("%s holds %s, want %s", got.Kind, got.JSON(), want.JSON())
		}
	}
	if states := c.States(); len(states) != 1 || states[0].Calls != 0 || states[0].Channels != 1 || !states[0].OK() {
		t.Errorf("the states are %+v", states)
	}
}

// TestFetchErrors: callers can tell a scheduler that refuses from one that is away.
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
		_, err := c.Fetch(t.Context(), at, Request{Queue: hello, Container: "c"})
		return err
	}
	f.fetch = fails(status.Error(codes.Internal, ""))
	if err := fetch(); !errors.Is(err, ErrRejected) {
		t.Errorf("a refusal is %v", err)
	}
	f.fetch = fails(status.Error(codes.Unavailable, ""))
	if err := fetch(); err == nil || errors.Is(err, ErrRejected) || errors.Is(err, ErrUnreadable) {
		t.Errorf("an end is %v", err)
	}
	if states := c.States(); len(states) != 1 || states[0].OK() {
		t.Errorf("the states are %+v", states)
	}
	const secret = "hush-hush"
	f.fetch = func(context.Context, *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		return &activationpb.FetchResponse{ActivationMessage: `{"message":{"activationId":"1","content":"` + secret + `"}}`}, nil
	}
	if err := fetch(); !errors.Is(err, ErrUnreadable) || strings.Contains(err.Error(), secret) {
		t.Errorf("what cannot be read is %v", err)
	}
	if states := c.States(); len(states) != 1 || !states[0].OK() {
		t.Errorf("after an answer the states are %+v", states)
	}
	none, nowhere := listen(t)
	none.Close()
	if _, err := c.Fetch(t.Context(), nowhere, Request{Queue: hello, Container: "c"}); err == nil || errors.Is(err, ErrRejected) {
		t.Errorf("without a scheduler it is %v", err)
	}
}

// TestFetchTakesLargeActivations: the limit follows the payload's.
func TestFetchTakesLargeActivations(t *testing.T) {
	f := &fake{fetch: answers(activation.NewFetchAnswer(oneMessage(`"` + strings.Repeat("x", 6<<20) + `"`)))}
	_, at := serve(t, f)
	large := client(t, Config{Payload: 6 * activation.MB})
	if _, err := large.Fetch(t.Context(), at, Request{Queue: hello, Container: "c"}); err != nil {
		t.Error(err)
	}
	small := client(t, Config{})
	if _, err := small.Fetch(t.Context(), at, Request{Queue: hello, Container: "c"}); !errors.Is(err, ErrUnreadable) {
		t.Errorf("beyond the limit it is %v", err)
	}
}

// TestFetchOutlivesItsContext: once the scheduler may answer, nothing but the answer
// ends a call.
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
		a, err := c.Fetch(ctx, at, Request{Queue: hello, Container: "c"})
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	<-asked
	cancel()
	close(answer)
	if a := <-got; a.Kind != activation.Fetched || a.Message == nil {
		t.Errorf("got %s", a)
	}
	if _, err := c.Fetch(ctx, activation.Endpoint{Host: "127.0.0.1", Port: 1}, Request{Queue: hello}); !errors.Is(err, context.Canceled) {
		t.Errorf("before there is a connection it is %v", err)
	}
}

// TestLeave: the call that a container has open is answered, and so is this one.
func TestLeave(t *testing.T) {
	open, left := make(chan bool), make(chan bool)
	f := &fake{fetch: func(ctx context.Context, r *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		if r.Alive {
			close(open)
			<-left
		} else {
			if r.ContainerId != "c" {
				t.Errorf("%s leaves", r.ContainerId)
			}
			close(left)
		}
		return answers(activation.FetchAnswer{Kind: activation.NoActivation})(ctx, r)
	}}
	_, at := serve(t, f)
	c := client(t, Config{})
	done := make(chan error)
	go func() {
		_, err := c.Fetch(t.Context(), at, Request{Queue: hello, Container: "c"})
		done <- err
	}()
	<-open
	if a, err := c.Leave(t.Context(), at, hello, "c"); err != nil || a.Kind != activation.NoActivation {
		t.Errorf("left: %s, %v", a, err)
	}
	if err := <-done; err != nil {
		t.Errorf("the open call ended with %v", err)
	}
}

func TestReschedule(t *testing.T) {
	want := oneMessage(`{"a":1}`)
	f := &fake{}
	_, at := serve(t, f)
	c := client(t, Config{})
	for _, ok := range []bool{true, false} {
		f.reschedule = func(_ context.Context, r *activationpb.RescheduleRequest) (*activationpb.RescheduleResponse, error) {
			if r.ActivationMessage != string(want) {
				t.Errorf("gave back %s", r.ActivationMessage)
			}
			return &activationpb.RescheduleResponse{IsRescheduled: ok}, nil
		}
		if got, err := c.Reschedule(t.Context(), at, hello, want); err != nil || got != ok {
			t.Errorf("got %v, %v, want %v", got, err, ok)
		}
	}
	f.reschedule = func(context.Context, *activationpb.RescheduleRequest) (*activationpb.RescheduleResponse, error) {
		return nil, status.Error(codes.Unavailable, "")
	}
	if ok, err := c.Reschedule(t.Context(), at, hello, want); err == nil || ok {
		t.Errorf("got %v, %v", ok, err)
	}
}

func TestWarmUp(t *testing.T) {
	f := &fake{fetch: func(ctx context.Context, r *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		if r.InvocationNamespace != "whisk.system" || r.Fqn != `{"name":"warmUp","path":"whisk.system"}` || r.Rev != "null" {
			t.Errorf("asked for %s %s %s", r.InvocationNamespace, r.Fqn, r.Rev)
		}
		return answers(activation.FetchAnswer{Kind: activation.NoActivation})(ctx, r)
	}}
	_, at := serve(t, f)
	if err := client(t, Config{}).WarmUp(t.Context(), at); err != nil {
		t.Error(err)
	}
}

func TestClosedClient(t *testing.T) {
	_, at := serve(t, &fake{fetch: answers(activation.FetchAnswer{Kind: activation.NoActivation})})
	c := client(t, Config{})
	if _, err := c.Fetch(t.Context(), at, Request{Queue: hello}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fetch(t.Context(), at, Request{Queue: hello}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
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
	if _, err := c.Fetch(t.Context(), at, Request{Queue: hello}); err != nil || got != nil {
		t.Errorf("without a run it is %v, %v", got, err)
	}
	for _, d := range []time.Duration{0, 1500 * time.Millisecond} {
		if _, err := c.Fetch(t.Context(), at, Request{Queue: hello, LastDuration: &d}); err != nil || got == nil || *got != d.Milliseconds() {
			t.Errorf("after %s it is %v, %v", d, got, err)
		}
	}
}
