package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// Failure says why an exchange brought no answer.
type Failure uint8

// Kinds of failure. Where a container turns out unhealthy on its first run
// after a rest, Refused lets the invoker run the activation elsewhere: the
// action cannot have seen it.
const (
	None       Failure = iota // there is an answer
	Timeout                   // the time was used up
	Refused                   // nothing listens: no byte was sent
	NoResponse                // the connection broke, or the answer is not one
	Cancelled                 // the caller's context ended
)

// String names the failure for logs.
func (f Failure) String() string {
	return [...]string{"none", "timeout", "refused", "no response", "cancelled"}[f]
}

// Exchange is one request and what came of it.
type Exchange struct {
	Start, End    time.Time
	Failure       Failure
	Err           error  // cause of the failure, for the operator's log
	Status        int    // HTTP status, 0 without an answer
	Body          []byte // UTF-8, truncated if Truncated
	ContentLength int64  // as the answer declared it
	Truncated     bool
	Max           int64 // the limit that truncated it
	Reused        bool  // the connection had served before
	Sent          bool  // a connection stood: the action may have seen the request
}

// Elapsed is how long the exchange took.
func (x Exchange) Elapsed() time.Duration { return x.End.Sub(x.Start) }

// Unhealthy tells that the proxy itself asks to be taken out of service.
func (x Exchange) Unhealthy() bool {
	return x.Failure == None && x.Status == http.StatusServiceUnavailable
}

// Broken tells that the connection failed before the time was used up, so that
// it is worth asking whether the container ran out of memory.
func (x Exchange) Broken() bool { return x.Failure == Refused || x.Failure == NoResponse }

// OK tells that the proxy answered 200 with a body within the limit.
func (x Exchange) OK() bool {
	return x.Failure == None && x.Status == http.StatusOK && !x.Truncated
}

// fail replaces whatever answer there was.
func (x *Exchange) fail(f Failure, err error) {
	*x = Exchange{Start: x.Start, End: time.Now(), Failure: f, Err: err, Reused: x.Reused, Sent: x.Sent}
}

// dialFailure classifies an error from before any byte was sent.
func dialFailure(ctx context.Context, err error) Failure {
	for _, no := range []syscall.Errno{
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN,
	} {
		if errors.Is(err, no) {
			return Refused
		}
	}
	return ioFailure(ctx, err)
}

func ioFailure(ctx context.Context, err error) Failure {
	if over(ctx) {
		return Cancelled
	}
	var slow net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return Timeout
	}
	return NoResponse
}

// over tells whether the context has ended. A dialer sees its deadline pass
// before the context's own timer has fired.
func over(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(end)
}
