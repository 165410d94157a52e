package proxy

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// conn is a connection that checks before each request whether the proxy has closed it.
// net/http notices a close in a separate goroutine, which runs too late on a busy
// machine. If the connection is closed, nothing is sent, and net/http uses another
// connection.
type conn struct {
	net.Conn
	raw      syscall.RawConn
	answered atomic.Bool // something was read since the last write
}

// checked returns a connection that checks before it sends, if the system supports that.
func checked(c net.Conn) net.Conn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return c
	}
	return &conn{Conn: c, raw: raw}
}

var errClosedByProxy = errors.New("the action closed the connection before the request")

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, err
}

// Write returns an error and sends nothing if it begins another request and the proxy
// has closed the connection.
func (c *conn) Write(b []byte) (int, error) {
	if c.answered.Swap(false) && c.closedByProxy() {
		return 0, errClosedByProxy
	}
	return c.Conn.Write(b)
}

// closedByProxy reports whether the proxy has closed its end. It consumes no bytes.
func (c *conn) closedByProxy() (closed bool) {
	err := c.raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n == 0 && err == nil || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	})
	return closed || err != nil
}
