package proxy

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// conn is a connection that looks whether the proxy has closed it before it sends a
// request. net/http notices that in a goroutine of its own, which on a busy machine runs
// too late. Nothing of the request is sent then, so that net/http sends it by another
// connection.
type conn struct {
	net.Conn
	raw      syscall.RawConn
	answered atomic.Bool // something was read since the last write
}

// checked returns a connection that looks before it sends, where the system can tell.
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

// Write sends nothing and returns an error if it begins another request, and the proxy has
// closed the connection.
func (c *conn) Write(b []byte) (int, error) {
	if c.answered.Swap(false) && c.closedByProxy() {
		return 0, errClosedByProxy
	}
	return c.Conn.Write(b)
}

// closedByProxy looks for the end of what the proxy sends, and takes nothing from it.
func (c *conn) closedByProxy() (closed bool) {
	err := c.raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n == 0 && err == nil || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	})
	return closed || err != nil
}
