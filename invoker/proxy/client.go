// Package proxy sends /init and /run to the action proxy in a container. It builds the
// requests, and converts the outcome into the response of the activation.
//
// It does not create, pause or remove containers, and reads no logs. Its only goroutines
// are net/http's: two for each open connection.
package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// idleLimit is how long an idle connection may be reused, if the proxy announces
	// that it keeps connections for at least announcedLimit. Node's HTTP server
	// announces 5 s. The large margin prevents a request from crossing with the proxy's
	// close.
	idleLimit      = 2 * time.Second
	announcedLimit = 2 * idleLimit
	// maxHead limits an answer's headers, because the action is not trusted.
	maxHead = 64 << 10
	// firstRead is the most memory that is allocated on the word of Content-Length
	// alone.
	firstRead = 64 << 10
)

// Pauses between attempts to reach a proxy that is not listening yet. They grow with the
// time already waited: a fast start is noticed early, and a slow start costs few
// attempts.
const (
	firstPause    = time.Millisecond
	longestPause  = 20 * time.Millisecond
	pauseFraction = 16 // a pause is this fraction of the time waited so far
)

// Limit limits the body of an answer.
type Limit struct {
	Max        int64 // a longer answer is truncated
	Truncation int64 // kept bytes of a truncated answer
}

// Client is the HTTP client of one container's action proxy. It allows as many
// concurrent calls as the action's concurrency limit. Each container has its own client,
// because addresses are reused and no connection may outlive its container.
//
// Each request opens a new connection, unless the proxy's last answer announced how long
// it keeps the connection. HTTP lets a server close a connection after any answer. A
// request that crosses with such a close is lost, and must not be sent again.
type Client struct {
	base      string
	once      *http.Transport // closes each connection after its request
	keeping   *http.Transport // keeps connections for idleLimit
	announced atomic.Bool     // the proxy keeps connections open
}

// Dial opens a connection to a proxy, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// New returns a client for the proxy at addr, host:port. It opens no connection.
func New(addr string, concurrency int) *Client {
	dialer := net.Dialer{KeepAlive: -1} // an idle connection is closed before a probe would be sent
	return NewDialing(addr, concurrency, dialer.DialContext)
}

// NewDialing returns a client that opens its connections with dial. addr is host:port,
// or the path of a Unix socket.
func NewDialing(addr string, concurrency int, dial Dial) *Client {
	host := addr
	if strings.HasPrefix(addr, "/") {
		host = "localhost"
	}
	opened := func(ctx context.Context, network, _ string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return checked(c), nil
	}
	return &Client{base: "http://" + host, once: transport(opened, -1), keeping: transport(opened, max(concurrency, 1))}
}

// transport returns a transport that keeps at most idle connections; a negative number
// means none.
func transport(dial Dial, idle int) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		DisableCompression:     true, // the body must have the declared length
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        idleLimit,
		MaxResponseHeaderBytes: maxHead,
	}
}

// Close closes the idle connections. It does not affect a call in progress.
func (c *Client) Close() { c.keeping.CloseIdleConnections() }

// Init sends /init. It first waits for the proxy to start: while nothing listens at the
// address, it tries again until the timeout. An attempt that reached the proxy is never
// repeated.
func (c *Client) Init(ctx context.Context, body []byte, timeout time.Duration, limit Limit) Exchange {
	start := time.Now()
	for {
		x := c.exchange(ctx, start, "/init", body, timeout, limit)
		if x.Failure != Refused {
			return x
		}
		if !pause(ctx, start, start.Add(timeout)) {
			x.fail(Timeout, x.Err)
			if deadlinePassed(ctx) {
				x.fail(Cancelled, cmp.Or(context.Cause(ctx), x.Err))
			}
			return x
		}
	}
}

// pause waits before the next attempt. It returns false if there is no time for one.
func pause(ctx context.Context, start, deadline time.Time) bool {
	d := min(max(time.Since(start)/pauseFraction, firstPause), longestPause)
	timer := time.NewTimer(min(d, time.Until(deadline)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return time.Now().Before(deadline)
	}
}

// Run sends /run once. It never repeats a request that may have reached the action.
func (c *Client) Run(ctx context.Context, body []byte, timeout time.Duration, limit Limit) Exchange {
	return c.exchange(ctx, time.Now(), "/run", body, timeout, limit)
}

// exchange makes one attempt. The transport repeats a POST only if no byte was written.
func (c *Client) exchange(ctx context.Context, start time.Time, path string, body []byte, timeout time.Duration, limit Limit) Exchange {
	x := Exchange{Start: start}
	limited, cancel := context.WithDeadline(ctx, start.Add(timeout))
	defer cancel()
	err := c.send(limited, path, body, limit, &x)
	x.End = time.Now()
	if err != nil {
		x.fail(failure(ctx, x.Sent, err), err)
	}
	return x
}

func (c *Client) send(ctx context.Context, path string, body []byte, limit Limit, x *Exchange) error {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		x.Sent, x.Reused = true, i.Reused
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request to action: %w", err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": nil,
	}
	t := c.once
	if c.announced.Load() {
		t = c.keeping
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("send request to action: %w", err)
	}
	c.announced.Store(keepTime(resp.Header) >= announcedLimit)
	defer resp.Body.Close() // errors of the body are returned by its reads
	return x.read(resp, limit)
}

// keepTime returns how long a proxy announces to keep an idle connection, 0 without an
// announcement.
func keepTime(h http.Header) time.Duration {
	for part := range strings.SplitSeq(h.Get("Keep-Alive"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seconds, err := strconv.Atoi(value); err == nil && strings.EqualFold(name, "timeout") {
			return time.Duration(min(seconds, maxKeepSeconds)) * time.Second
		}
	}
	return 0
}

// maxKeepSeconds limits an announcement, because the proxy is not trusted.
const maxKeepSeconds = 3600

var errNoLength = errors.New("the answer declares no length")

// read reads an answer. An answer without a declared length, or with a status that has
// no body, is an error, because OpenWhisk cannot read it either
// (ApacheBlockingContainerClient, HttpUtils).
func (x *Exchange) read(resp *http.Response, limit Limit) error {
	if resp.ContentLength < 0 || resp.ProtoMajor != 1 || bodiless(resp.StatusCode) {
		return fmt.Errorf("read answer of action with status %d: %w", resp.StatusCode, errNoLength)
	}
	x.Status, x.ContentLength = resp.StatusCode, resp.ContentLength
	want := resp.ContentLength
	if want > limit.Max {
		x.Truncated, x.Max = true, limit.Max
		want = min(want, max(limit.Truncation, 0))
	}
	var text bytes.Buffer
	text.Grow(int(min(want, firstRead)) + bytes.MinRead)
	if n, err := text.ReadFrom(io.LimitReader(resp.Body, want)); err != nil || n < want {
		return fmt.Errorf("read body of answer of action: %w", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	x.Body = decode(text.Bytes(), charsetOf(resp.Header.Get("Content-Type")))
	return nil
}

func bodiless(status int) bool {
	switch status {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		return true
	}
	return false
}

// charsetOf returns the charset parameter of a media type, in lower case.
func charsetOf(mediaType string) string {
	_, params, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return ""
	}
	return strings.ToLower(params["charset"])
}

// failure classifies an error. sent reports whether a connection existed.
func failure(ctx context.Context, sent bool, err error) Failure {
	for _, no := range []syscall.Errno{
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN,
		syscall.ENOENT, syscall.EAGAIN, // a Unix socket that does not exist yet, or has a full queue
	} {
		if !sent && errors.Is(err, no) {
			return Refused
		}
	}
	if deadlinePassed(ctx) {
		return Cancelled
	}
	var slow net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return Timeout
	}
	return NoResponse
}

// deadlinePassed reports whether the context has ended. It also checks the deadline, because a
// dialer may see the deadline pass before the context's timer fires.
func deadlinePassed(ctx context.Context) bool {
	end, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(end)
}

// Failure is the reason for an exchange without an answer.
type Failure uint8

// Kinds of failure. If a container fails with Refused at its first run after a pause,
// the invoker may run the activation elsewhere, because the action cannot have seen it.
const (
	None       Failure = iota // there is an answer
	Timeout                   // the timeout has passed
	Refused                   // nothing listens: no byte was sent
	NoResponse                // the connection broke, or the answer is invalid
	Cancelled                 // the caller's context ended
)

// String returns the name of the failure for logs.
func (f Failure) String() string {
	return [...]string{"none", "timeout", "refused", "no response", "cancelled"}[f]
}

// Exchange is one request and its outcome.
type Exchange struct {
	Start, End    time.Time
	Failure       Failure
	Err           error  // cause of the failure, for the log
	Status        int    // HTTP status, 0 without an answer
	Body          []byte // UTF-8, truncated if Truncated
	ContentLength int64  // as declared by the answer
	Truncated     bool
	Max           int64 // the limit that truncated it
	Reused        bool  // the connection was used before
	Sent          bool  // a connection existed: the action may have seen the request
}

// Elapsed returns the duration of the exchange.
func (x Exchange) Elapsed() time.Duration { return x.End.Sub(x.Start) }

// Unhealthy reports whether the proxy asks to be taken out of service.
func (x Exchange) Unhealthy() bool {
	return x.Failure == None && x.Status == http.StatusServiceUnavailable
}

// Broken reports whether the connection failed before the timeout. The caller should
// check then whether the container ran out of memory.
func (x Exchange) Broken() bool { return x.Failure == Refused || x.Failure == NoResponse }

// OK reports whether the proxy answered 200 with a body within the limit.
func (x Exchange) OK() bool {
	return x.Failure == None && x.Status == http.StatusOK && !x.Truncated
}

// fail replaces any answer by a failure.
func (x *Exchange) fail(f Failure, err error) {
	*x = Exchange{Start: x.Start, End: time.Now(), Failure: f, Err: err, Reused: x.Reused, Sent: x.Sent}
}
