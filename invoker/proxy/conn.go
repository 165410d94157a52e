package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/socket"
)

// Sizes of what a connection keeps between requests. Larger requests are sent
// without copying them, larger answers read past the buffer.
const (
	readBuffer  = 4 << 10
	writeBuffer = 16 << 10
)

// conn is one keep-alive connection.
type conn struct {
	net.Conn
	tcp   net.Conn // the same, for what is written in parts
	r     *bufio.Reader
	w     []byte
	since time.Time // when it came to rest
	used  bool
}

// connect takes the connection that rested least, or opens one.
func (c *Client) connect(ctx context.Context, deadline time.Time) (*conn, error) {
	k := c.rested()
	if k == nil {
		var err error
		if k, err = open(ctx, c.addr, deadline); err != nil {
			return nil, err
		}
	}
	if err := k.SetDeadline(deadline); err != nil {
		k.Close()
		return nil, fmt.Errorf("set deadline of connection to %s: %w", c.addr, err)
	}
	return k, nil
}

// rested takes a connection out of rest. One that rested too long, or that the
// peer has closed or written to meanwhile, is closed. Between this look and the
// request a close can still slip in: the exchange then ends as NoResponse, as
// it would with an action that died, and is not repeated.
func (c *Client) rested() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := len(c.idle); n > 0; n = len(c.idle) {
		k := c.idle[n-1]
		c.idle = c.idle[:n-1]
		if time.Since(k.since) < idleLimit && k.quiet() {
			return k
		}
		k.Close()
	}
	return nil
}

// rest keeps a connection for the next request, and closes those that were not
// needed for so long that nobody may use them any more: else as many would stay
// open as the busiest moment had.
func (c *Client) rest(k *conn) {
	k.used = true
	k.since = time.Now()
	var old []*conn
	c.mu.Lock()
	n := 0
	for n < len(c.idle) && k.since.Sub(c.idle[n].since) >= idleLimit {
		n++
	}
	if n > 0 {
		old = append(old, c.idle[:n]...)
		c.idle = slices.Delete(c.idle, 0, n)
	}
	if len(c.idle) < c.keep {
		c.idle = append(c.idle, k)
	} else {
		old = append(old, k)
	}
	c.mu.Unlock()
	for _, k := range old {
		k.Close()
	}
}

func open(ctx context.Context, addr string, deadline time.Time) (*conn, error) {
	d := net.Dialer{Deadline: deadline, KeepAlive: -1}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to action: %w", err)
	}
	quick := socket.Quick(nc)
	return &conn{Conn: quick, tcp: nc, r: bufio.NewReaderSize(quick, readBuffer)}, nil
}

// quiet tells whether a resting connection is open and has nothing to read.
func (k *conn) quiet() bool {
	return k.r.Buffered() == 0 && socket.Rests(k.Conn)
}

// interrupt makes whatever blocks on the connection return at once. Setting it
// fails only on a closed connection, where nothing blocks.
func (k *conn) interrupt() { _ = k.SetDeadline(time.Unix(1, 0)) }

// exchange sends the request and reads the answer. keep tells whether the
// connection can serve again.
func (k *conn) exchange(r call, x *Exchange) (keep bool, err error) {
	x.Reused = k.used
	sent := k.send(r)
	keep, err = k.receive(r.limit, x)
	if err != nil && sent != nil {
		err = sent // the cause; what was read after it only follows
	}
	return keep && sent == nil, err
}

// send writes the request in one go. When that fails the peer may still have
// answered, such as by refusing a body that is too large for it.
func (k *conn) send(r call) error {
	k.w = r.appendHead(k.w[:0])
	var err error
	if len(k.w)+len(r.body) <= writeBuffer {
		k.w = append(k.w, r.body...)
		_, err = k.Write(k.w)
	} else {
		parts := net.Buffers{k.w, r.body}
		_, err = parts.WriteTo(k.tcp)
	}
	if err != nil {
		return fmt.Errorf("send request to action: %w", err)
	}
	return nil
}
