// Package proxy is the HTTP talk with an action: it sends /init and /run to
// the action proxy in a container, builds what they carry, and decides what
// their outcome means for the activation.
//
// It does not create, pause or remove containers, reads no logs and knows no
// flows. It owns no goroutine: every call works on its caller's, and ends when
// the deadline or the context does.
package proxy

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"
)

// idleLimit is how long a connection may rest and still be used again. Node's
// HTTP server closes after 5 s of rest; staying far below keeps a request and
// a close from crossing on the wire.
const idleLimit = 2 * time.Second

// Pauses between attempts to reach a proxy that does not listen yet. They grow
// with the time already waited, so that a fast start is met fast and a slow
// one costs little.
const (
	firstPause   = time.Millisecond
	longestPause = 20 * time.Millisecond
	pauseShare   = 16 // a pause is this fraction of the time already waited
)

// Limit bounds the body of an answer.
type Limit struct {
	Max        int64 // a longer answer is truncated
	Truncation int64 // how much of it is kept then
}

// Client talks to the action proxy of one container. It may be used by as many
// goroutines at once as the action's concurrency limit allows.
type Client struct {
	addr      string
	init, run []byte // request heads, all but the length of the body
	keep      int    // idle connections worth keeping
	mu        sync.Mutex
	idle      []*conn // the last one rested least
}

// New makes a client for the proxy at addr, host:port. It opens nothing.
func New(addr string, concurrency int) *Client {
	head := func(path string) []byte {
		return []byte("POST " + path + " HTTP/1.1\r\nHost: " + addr +
			"\r\nContent-Type: application/json\r\nAccept: application/json\r\nContent-Length: ")
	}
	return &Client{addr: addr, init: head("/init"), run: head("/run"), keep: max(concurrency, 1)}
}

// Init sends /init and waits for the proxy to come up first: while nothing
// listens at the address it tries again until the timeout is used up. An
// attempt that reached the proxy is never repeated.
func (c *Client) Init(ctx context.Context, body []byte, timeout time.Duration, limit Limit) Exchange {
	x := Exchange{Start: time.Now()}
	call := call{head: c.init, body: body, deadline: x.Start.Add(timeout), limit: limit}
	for {
		c.exchange(ctx, call, &x)
		if x.Failure != Refused {
			return x
		}
		if !pause(ctx, x.Start, call.deadline) {
			x.fail(Timeout, x.Err)
			if over(ctx) {
				x.fail(Cancelled, cmp.Or(context.Cause(ctx), x.Err))
			}
			return x
		}
	}
}

// pause waits a little, and tells whether there is time for another attempt.
func pause(ctx context.Context, start, deadline time.Time) bool {
	d := min(max(time.Since(start)/pauseShare, firstPause), longestPause)
	d = min(d, time.Until(deadline))
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return time.Now().Before(deadline)
	}
}

// Run sends /run, once: what may have reached the action is not sent again.
func (c *Client) Run(ctx context.Context, body []byte, timeout time.Duration, limit Limit) Exchange {
	x := Exchange{Start: time.Now()}
	c.exchange(ctx, call{head: c.run, body: body, deadline: x.Start.Add(timeout), limit: limit}, &x)
	return x
}

// call is one request.
type call struct {
	head     []byte
	body     []byte
	deadline time.Time
	limit    Limit
}

// appendHead completes the head with the length of the body.
func (r call) appendHead(dst []byte) []byte {
	dst = append(dst, r.head...)
	dst = strconv.AppendInt(dst, int64(len(r.body)), 10)
	return append(dst, "\r\n\r\n"...)
}

// exchange makes one attempt and fills in everything but the start.
func (c *Client) exchange(ctx context.Context, r call, x *Exchange) {
	*x = Exchange{Start: x.Start}
	k, err := c.connect(ctx, r.deadline)
	if err != nil {
		x.fail(dialFailure(ctx, err), err)
		return
	}
	x.Sent = true
	stop := context.AfterFunc(ctx, k.interrupt)
	keep, err := k.exchange(r, x)
	intact := stop()
	x.End = time.Now()
	if err != nil {
		x.fail(ioFailure(ctx, err), err)
	}
	if keep && intact && err == nil {
		c.rest(k)
		return
	}
	k.Close()
}

// Close closes the connections that rest. A call under way is not disturbed;
// calls after it open connections of their own.
func (c *Client) Close() {
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, k := range idle {
		k.Close()
	}
}
