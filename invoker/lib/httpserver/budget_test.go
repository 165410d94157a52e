package httpserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// from is a connection of a client with its own address.
type from struct {
	net.Conn
	client string
}

func (f from) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(f.client), Port: 4711}
}

// crowd is a server with few connections, and its clients, in a synctest bubble.
type crowd struct {
	t     *testing.T
	conns pipes
	all   []net.Conn
}

func newCrowd(t *testing.T, connections int) *crowd {
	c := &crowd{t: t, conns: make(pipes)}
	server, ended := New(http.HandlerFunc(handler), blocking, connections), make(chan error, 1)
	go func() { ended <- server.Serve(c.conns) }()
	t.Cleanup(func() {
		for _, client := range c.all {
			_ = client.Close() // closes the end of a pipe
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return c
}

// come sends the text of a request from an address, without waiting until it is read.
func (c *crowd) come(client, request string) net.Conn {
	c.t.Helper()
	near, far := net.Pipe()
	c.all = append(c.all, near)
	go func() {
		c.conns <- from{far, client}
		_, _ = io.WriteString(near, strings.ReplaceAll(request, "\n", "\r\n")) // the write is cut off if the connection is closed
	}()
	synctest.Wait()
	return near
}

// status reads the status line of an answer, or returns "" if none arrives soon.
func (c *crowd) status(client net.Conn) string {
	_ = client.SetReadDeadline(time.Now().Add(time.Second))
	line, _ := bufio.NewReader(client).ReadString('\n')
	return strings.TrimSpace(line)
}

// gone reports whether the server has closed a connection.
func (c *crowd) gone(client net.Conn) bool {
	_ = client.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := client.Read(make([]byte, 1))
	return err == io.EOF
}

const (
	halfHead    = "POST /x HTTP/1.1\nHost: x\n"
	slowBody    = "POST /x HTTP/1.1\nHost: x\nContent-Length: 10\n\nhalf"
	slowBlocked = "POST /blocking HTTP/1.1\nHost: x\nContent-Length: 10\n\nhalf"
	largeAnswer = "GET /large HTTP/1.1\nHost: x\n\n"
	openStream  = "GET /stream HTTP/1.1\nHost: x\n\n"
	working     = "GET /blocking HTTP/1.1\nHost: x\n\n"
	workingBody = "POST /blocking HTTP/1.1\nHost: x\nContent-Length: 4\n\nbody"
	health      = "GET /ping HTTP/1.1\nHost: x\n\n"
	served      = "HTTP/1.1 200 OK"
)

// TestSlowConnectionsMakeWay: a slow connection is closed for a request that arrives at
// once.
func TestSlowConnectionsMakeWay(t *testing.T) {
	for name, slow := range map[string]string{
		"nothing": "", "half a head": halfHead, "a slow body": slowBody, "a slow body of a long call": slowBlocked,
		"an answer that is not read": largeAnswer, "a stream that is not read": openStream, "an idle one": health,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, 2)
				for range 5 {
					if slow == health {
						check.Equal(t, c.status(c.come("10.0.0.1", slow)), served)
						continue
					}
					c.come("10.0.0.1", slow)
				}
				check.Equal(t, c.status(c.come("10.0.0.1", health)), served)
			})
		})
	}
}

// TestWorkDoesNotMakeWay: while all connections wait for their handlers, a new
// connection waits and is served afterwards.
func TestWorkDoesNotMakeWay(t *testing.T) {
	for name, request := range map[string]string{"without a body": working, "with a body": workingBody} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, 2)
				one, two := c.come("10.0.0.1", request), c.come("10.0.0.1", request)
				next := c.come("10.0.0.2", health)
				check.Equal(t, c.status(next), "", "a third beside two that work")
				for _, client := range []net.Conn{one, two} {
					_ = client.SetReadDeadline(time.Time{})
					line, err := bufio.NewReader(client).ReadString('\n')
					check.NoError(t, err)
					check.Equal(t, strings.TrimSpace(line), served)
				}
				check.Equal(t, c.status(next), served)
			})
		})
	}
}

// TestTheClientWithMostMakesWay: the client with the most connections loses its oldest
// one first. A stream whose client reads it stays.
func TestTheClientWithMostMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 4)
		stream := c.come("10.0.0.1", openStream)
		check.Equal(t, c.status(stream), served)
		quiet := c.come("10.0.0.2", halfHead)
		oldest, younger := c.come("10.0.0.3", halfHead), c.come("10.0.0.3", halfHead)
		check.Equal(t, c.status(c.come("10.0.0.4", health)), served)
		for name, want := range map[string]struct {
			conn net.Conn
			gone bool
		}{
			"the stream": {stream, false}, "the one of a client with one": {quiet, false},
			"the older of two": {oldest, true}, "the younger of two": {younger, false},
		} {
			if name != "the stream" {
				check.Equal(t, c.gone(want.conn), want.gone, "%s is gone", name)
			}
		}
		part := make([]byte, 100)
		_ = stream.SetReadDeadline(time.Now().Add(2 * blocking))
		_, err := stream.Read(part)
		check.NoError(t, err, "the stream goes on")
	})
}

// TestBusyConnectionsEndWhileAllAreInUse: a client that always has a request under way
// does not keep its connection for ever.
func TestBusyConnectionsEndWhileAllAreInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1)
		busy := c.come("10.0.0.1", health)
		_ = busy.SetReadDeadline(time.Now().Add(time.Second))
		answer, err := io.ReadAll(busy)
		check.NoError(t, err)
		check.Contains(t, string(answer), "\r\nConnection: close\r\n")
		check.Equal(t, c.status(c.come("10.0.0.2", health)), served)
	})
}

// TestHealthIsServedInAFlood: health checks are answered while clients open slow
// requests again and again.
func TestHealthIsServedInAFlood(t *testing.T) {
	const clients, connections, checks = 600, 256, 10
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	server, ended := New(http.HandlerFunc(handler), 0, connections), make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var opened atomic.Int64
	var flood sync.WaitGroup
	full := make(chan struct{})
	for range clients {
		flood.Go(func() {
			for ctx.Err() == nil {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
				if err != nil {
					continue
				}
				if opened.Add(1) == 2*clients {
					close(full)
				}
				cut := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = io.WriteString(conn, strings.ReplaceAll(slowBody, "\n", "\r\n"))
				_, _ = io.Copy(io.Discard, conn) // until the server closes the connection
				cut()
				_ = conn.Close()
			}
		})
	}
	<-full // now connections have been closed, perhaps each for another
	lost := 0
	for range checks {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 4 * time.Second}
		res, err := client.Get("http://" + l.Addr().String() + "/ping")
		if err != nil {
			lost++
			continue
		}
		_ = res.Body.Close()
	}
	stop()
	flood.Wait()
	check.NoError(t, server.Close())
	<-ended
	check.Equal(t, lost, 0, "health checks lost of %d; %d slow bodies were opened", checks, opened.Load())
	t.Logf("%d slow bodies were opened", opened.Load())
}
