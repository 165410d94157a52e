package proxy

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// keeps returns the answer of a proxy that announces how long it keeps the connection.
func keeps(seconds, body string) string {
	return strings.Replace(ok(body), "\r\n", "\r\nConnection: keep-alive\r\nKeep-Alive: timeout="+seconds+"\r\n", 1)
}

// TestEachRunHasItsConnection: each run has a new connection, unless the proxy announces
// that it keeps connections for long enough.
func TestEachRunHasItsConnection(t *testing.T) {
	for name, answer := range map[string]string{
		"silent": ok("{}"), "too short": keeps("3", "{}"), "damaged": keeps("x", "{}"), "negative": keeps("-5", "{}"),
	} {
		p := listen(t, answers(answer))
		c := p.client(t)
		for range 3 {
			x := c.Run(t.Context(), []byte("{}"), time.Minute, wide)
			check.That(check.Must(t), x.OK(), "%s: %v %v", name, x.Failure, x.Err)
			check.That(t, !x.Reused, "%s: used again", name)
		}
		check.Equal(t, p.conns.Load(), 3, "%s: connections", name)
	}
}

// TestProxyThatClosesSilently: no run is lost if a proxy closes each connection some
// time after its answer without notice, whatever it announced.
func TestProxyThatClosesSilently(t *testing.T) {
	for name, answer := range map[string]string{"silent": ok("{}"), "announces 5 s": keeps("5", "{}")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int32
			p := listen(t, func(c net.Conn, r *bufio.Reader) {
				for {
					if _, _, err := request(r); err != nil {
						return
					}
					runs.Add(1)
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
					if runs.Load()%3 == 0 {
						return // like a server whose keep-alive time has just ended
					}
				}
			})
			c := New(p.Addr().String(), 4)
			defer c.Close()
			const each = 500
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for i := range each {
						x := c.Run(t.Context(), []byte("{}"), time.Minute, wide)
						check.That(t, x.OK() || x.Reused && name != "silent", "run %d: %v %v, reused %v", i, x.Failure, x.Err, x.Reused)
					}
				})
			}
			wg.Wait()
			check.AtMost(t, runs.Load(), 4*each, "requests that the proxy got")
		})
	}
}

// TestClosedConnectionGetsNoRequest: no part of a request is sent on a connection that
// the proxy has closed. The request uses another connection.
func TestClosedConnectionGetsNoRequest(t *testing.T) {
	closing := make(chan net.Conn, 1)
	p := listen(t, func(c net.Conn, r *bufio.Reader) {
		if _, _, err := request(r); err == nil {
			io.WriteString(c, keeps("5", "{}"))
			closing <- c
		}
	})
	nc, err := net.Dial("tcp", p.Addr().String())
	check.NoError(t, err)
	c := checked(nc)
	defer c.Close()
	_, err = io.WriteString(c, "POST /run HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
	check.NoError(t, err)
	got := make([]byte, 1024)
	_, err = c.Read(got)
	check.NoError(t, err)
	check.Receive(t, closing) // the handler's end closes the connection
	for err = nil; err == nil; {
		c.(*conn).answered.Store(true)
		var n int
		if n, err = c.Write(nil); err == nil {
			check.Equal(t, n, 0)
			runtime.Gosched()
		}
	}
	check.ErrorIs(t, err, errClosedByProxy)
}

func TestConnectionIsUsedAgain(t *testing.T) {
	p := listen(t, answers(keeps("5", "{}")))
	c := p.client(t)
	c.Run(t.Context(), []byte("{}"), time.Minute, wide) // now the client knows that connections are kept
	opened := int32(1)
	var rested time.Time
	for i := range 5 {
		x := c.Run(t.Context(), []byte("{}"), time.Minute, wide)
		late := time.Since(rested) >= idleLimit // if the machine stood still, it may be a different connection
		check.That(check.Must(t), x.OK(), "run %d: %v %v reused %v", i, x.Failure, x.Err, x.Reused)
		if x.Reused && i == 0 {
			t.Fatalf("run %d: %v %v reused %v", i, x.Failure, x.Err, x.Reused)
		}
		if !x.Reused && !late {
			t.Fatalf("run %d: %v %v reused %v", i, x.Failure, x.Err, x.Reused)
		}
		if rested = time.Now(); !x.Reused {
			opened++
		}
	}
	check.Equal(t, p.conns.Load(), opened)
}

// closes counts the connections that a client has closed.
func closes(c *Client) <-chan struct{} {
	closed := make(chan struct{}, 100)
	for _, t := range []*http.Transport{c.once, c.keeping} {
		dial := t.DialContext
		t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &closing{Conn: nc, closed: closed}, nil
		}
	}
	return closed
}

type closing struct {
	net.Conn
	once   sync.Once
	closed chan<- struct{}
}

func (c *closing) Close() error {
	c.once.Do(func() { c.closed <- struct{}{} })
	return c.Conn.Close()
}

func TestConnectionIsNotUsedAgain(t *testing.T) {
	log.SetOutput(io.Discard) // net/http logs unsolicited responses
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	for name, text := range map[string]string{
		"close":              "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.0":           "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"more than declared": ok("{}") + "garbage",
		"two answers":        ok("{}") + ok("{}"),
	} {
		p := listen(t, answers(text))
		c := p.client(t)
		closed := closes(c)
		for range 2 {
			x := c.Run(t.Context(), nil, time.Minute, wide)
			check.That(check.Must(t), x.OK(), "%s: %v %v reused %v %q", name, x.Failure, x.Err, x.Reused, x.Body)
			check.That(t, !x.Reused, "%s: %v %v reused %v %q", name, x.Failure, x.Err, x.Reused, x.Body)
			check.Equal(t, string(x.Body), "{}", "%s", name)
			check.Receive(t, closed)
		}
		check.Equal(t, p.conns.Load(), 2, "%s", name)
	}
}

// TestConnectionClosedWhileIdleIsNoticed: if a peer closes an idle connection, the next
// run does not fail.
func TestConnectionClosedWhileIdleIsNoticed(t *testing.T) {
	p := listen(t, func(c net.Conn, r *bufio.Reader) {
		if _, _, err := request(r); err == nil {
			io.WriteString(c, keeps("5", "{}"))
		}
	})
	c := p.client(t)
	closed := closes(c)
	for range 3 {
		x := c.Run(t.Context(), nil, time.Minute, wide)
		check.That(check.Must(t), x.OK(), "%v %v reused %v", x.Failure, x.Err, x.Reused)
		check.That(check.Must(t), !x.Reused, "%v %v reused %v", x.Failure, x.Err, x.Reused)
		check.Receive(t, closed) // the peer has closed the connection
	}
}

// TestIdleConnectionIsClosed: connections that a burst opened are closed after they have
// been idle.
func TestIdleConnectionIsClosed(t *testing.T) {
	p := listen(t, answers(keeps("5", "{}")))
	c := p.client(t)
	check.Equal(t, c.keeping.IdleConnTimeout, idleLimit, "connections are idle")
	c.keeping.IdleConnTimeout = time.Millisecond
	closed := closes(c)
	for range 2 {
		x := c.Run(t.Context(), nil, time.Minute, wide)
		check.That(check.Must(t), x.OK(), "%v reused %v", x.Failure, x.Reused)
		check.That(t, !x.Reused, "%v reused %v", x.Failure, x.Reused)
		check.Receive(t, closed)
	}
}
