// Package socket reads and writes TCP connections without telling Go's scheduler
// that a call to the system begins.
//
// The runtime has a thread that looks for calls that take long, every 20 us
// while anything runs. It sleeps when nothing does, and whatever comes next
// wakes it: an invoker that has something to do for a tenth of a millisecond,
// thousands of times a second, spends an eighth of its processor time on being
// looked after. A call on a socket that is ready does not block, so nobody need
// look after it; where it is not ready, the connection waits as any other does.
//
// It is for connections of many small messages. It starts no goroutine.
package socket

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Quick gives a TCP connection that reads and writes so. Another connection, or
// one that has no descriptor, comes back as it is. Both may be used, as long as
// not both read or both write at a time.
func Quick(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	q := &conn{TCPConn: tcp, raw: raw}
	q.in.system, q.out.system = read, write
	q.in.try, q.out.try = q.in.call, q.out.call
	q.look = func(fd uintptr) bool {
		q.rests = nothing(fd)
		return true // the first look is all
	}
	return q
}

type conn struct {
	*net.TCPConn
	raw     syscall.RawConn
	in, out half

	look  func(fd uintptr) bool // one look whether there is something to be read
	rests bool                  // what it saw
}

// half is one direction. What a call needs lies here, so that it allocates
// nothing.
type half struct {
	mu     sync.Mutex
	system func(fd uintptr, data []byte) (int, syscall.Errno) // read or write
	try    func(fd uintptr) bool                              // call, made once
	data   []byte                                             // not empty
	n      int
	err    syscall.Errno
}

// call makes the call to the system, and tells whether there is an answer.
func (h *half) call(fd uintptr) bool {
	for {
		n, err := h.system(fd, h.data)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		case 0:
			h.n, h.err = n, 0
		default:
			h.n, h.err = 0, err
		}
		return true
	}
}

// do makes one call when the connection is ready, by wait.
func (h *half) do(wait func(func(uintptr) bool) error, data []byte) (int, syscall.Errno, error) {
	h.data = data
	err := wait(h.try)
	h.data = nil
	if err != nil {
		return 0, 0, err
	}
	return h.n, h.err, nil
}

// Read is that of net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	n, no, err := c.in.do(c.raw.Read, p)
	switch {
	case err != nil:
		return 0, err
	case no != 0:
		return 0, c.failure("read", no)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write is that of net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	for at := 0; ; {
		if at == len(p) {
			return at, nil
		}
		n, no, err := c.out.do(c.raw.Write, p[at:])
		at += n
		switch {
		case err != nil:
			return at, err
		case no != 0:
			return at, c.failure("write", no)
		}
	}
}

// ReadFrom writes what it reads, and not as the connection below would: by calls
// that the scheduler is told of.
func (c *conn) ReadFrom(from io.Reader) (int64, error) {
	if whole, ok := from.(*io.LimitedReader); ok {
		// What lies in memory, and no more than may be written, is written as it is.
		if r, ok := whole.R.(*bytes.Reader); ok && int64(r.Len()) <= whole.N {
			n, err := r.WriteTo(c)
			whole.N -= n
			return n, err
		}
	}
	return io.Copy(struct{ io.Writer }{c}, from)
}

// Rests tells whether a quick connection is open and has nothing to be read. It
// takes nothing off it. Of any other connection it does not know, and says no.
func Rests(c net.Conn) bool {
	q, ok := c.(*conn)
	if !ok {
		return false
	}
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	err := q.raw.Read(q.look)
	return err == nil && q.rests
}

// failure is as package net tells of it.
func (c *conn) failure(op string, no syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, no)}
}
