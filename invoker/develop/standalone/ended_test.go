package standalone

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// mortal returns a fake invoker, and a function that makes it end by itself with a
// reason.
func mortal(f *fakeInvoker, reason error) (start StartInvoker, die func()) {
	dying := make(chan struct{})
	start = func(ctx context.Context, environ, args []string) (func() error, error) {
		ctx, cancel := context.WithCancel(ctx)
		wait, err := f.start(ctx, environ, args)
		return func() error {
			select {
			case <-dying:
			case <-ctx.Done():
			}
			cancel()
			_ = wait() // a fake returns no reason
			return reason
		}, err
	}
	return start, func() { close(dying) }
}

func TestEndedIsDeliveredOnceAndStopDoesNotWaitForIt(t *testing.T) {
	for name, reason := range map[string]error{"with a reason": errors.New("out of memory"), "without one": nil} {
		t.Run(name, func(t *testing.T) {
			f := &fakeInvoker{}
			start, die := mortal(f, reason)
			s := begin(t, f, func(o *Options) { o.Invoker = start })
			die()
			got := <-s.Ended()
			check.That(t, got != nil)
			if reason != nil {
				check.ErrorIs(t, got, reason)
			}
			stopSoon(t, s)
		})
	}
}

// TestStopAnswersCallersOfADeadInvoker: callers of a dead invoker get the same answer as
// after a timeout: the activation's id, or the error of a sequence.
func TestStopAnswersCallersOfADeadInvoker(t *testing.T) {
	for action, want := range map[string]struct {
		status int
		body   string
	}{"a": {202, `{"activationId":`}, "sequence": {500, "Timeout reached when retrieving activation"}} {
		t.Run(action, func(t *testing.T) {
			started := make(chan struct{})
			f := &fakeInvoker{run: func(*activation.Message) activation.Response {
				close(started)
				runtime.Goexit() // without an answer
				return activation.Response{}
			}}
			start, die := mortal(f, errors.New("killed"))
			s := begin(t, f, func(o *Options) { o.Invoker = start })
			d := at(t, s)
			d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
			d.put("actions/sequence", `{"exec":{"kind":"sequence","components":["/_/a"]}}`)
			called := make(chan answer, 1)
			go func() {
				defer close(called) // also without an answer
				called <- d.do("POST", actions+action+"?blocking=true", `{}`)
			}()
			<-started
			die()
			<-s.Ended()
			stopSoon(t, s)
			got := <-called
			check.Equal(t, got.status, want.status, "the call under way")
			check.Contains(t, got.body, want.body, "the call under way")
		})
	}
}

// stopSoon fails if Stop waits for answers that cannot arrive any more.
func stopSoon(t *testing.T, s *Standalone) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	check.NoError(t, s.Stop(ctx))
}
