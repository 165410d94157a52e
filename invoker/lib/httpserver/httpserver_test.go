package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// pipes is a listener of in-memory connections.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// blocking is the duration of a call of the handler.
const blocking = time.Minute

func handler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	block := func() bool {
		select {
		case <-time.After(blocking):
			return true
		case <-r.Context().Done():
			return false
		}
	}
	switch r.URL.Path {
	case "/blocking":
		if block() {
			_, _ = io.WriteString(w, "done")
		}
	case "/large":
		_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
	case "/stream":
		for w = Stream(w); ; {
			_, err := w.Write([]byte("data: x\n\n"))
			if errors.Join(err, http.NewResponseController(w).Flush()) != nil || !block() {
				return
			}
		}
	}
}

// dial serves one connection, in a synctest bubble.
func dial(t *testing.T, request string) net.Conn {
	t.Helper()
	server, conns, ended := New(http.HandlerFunc(handler), blocking, 10), make(pipes), make(chan error, 1)
	go func() { ended <- server.Serve(conns) }()
	client, at := net.Pipe()
	conns <- at
	_, err := io.WriteString(client, strings.ReplaceAll(request, "\n", "\r\n"))
	check.NoError(t, err)
	t.Cleanup(func() {
		_ = client.Close() // closes the end of a pipe
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return client
}

// TestLetsGo: clients lose their connection if their request does not arrive or they do
// not receive the answer.
func TestLetsGo(t *testing.T) {
	for name, request := range map[string]string{
		"half a head":    "POST /disable HTTP/1.1\nHost: x\n",
		"a body missing": "POST /disable HTTP/1.1\nHost: x\nContent-Length: 10\n\n",
		"an answer":      "GET /large HTTP/1.1\nHost: x\n\n",
		"a stream":       "GET /stream HTTP/1.1\nHost: x\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := dial(t, request)
				time.Sleep(blocking + 2*AnswerTime)
				synctest.Wait()
				_, err := client.Write([]byte("x"))
				check.ErrorIs(t, err, io.ErrClosedPipe)
			})
		})
	}
}

// TestWaits: the server waits for slow handlers, and without limit for a stream that the
// client reads.
func TestWaits(t *testing.T) {
	for path, want := range map[string]string{"/blocking": "\r\ndone", "/stream": strings.Repeat("9\r\ndata: x\n\n\r\n", 10)} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := dial(t, "GET "+path+" HTTP/1.1\nHost: x\n\n")
				var all []byte
				for part := make([]byte, 4096); !strings.HasSuffix(string(all), want); {
					n, err := client.Read(part)
					all = append(all, part[:n]...)
					check.NoError(t, err, "%s", all)
				}
			})
		})
	}
}

// TestFilter: connections from addresses that are not admitted are closed, and later
// ones are still accepted.
func TestFilter(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	admitted := netip.MustParseAddr("127.0.0.2")
	server := &http.Server{Handler: http.NotFoundHandler()}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(Filter(l, func(from netip.Addr) bool { return from == admitted })) }()
	for _, c := range []struct {
		from   string
		served bool
	}{{"127.0.0.3", false}, {"127.0.0.2", true}, {"127.0.0.3", false}, {"127.0.0.2", true}} {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}
		client := http.Client{Transport: &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true}}
		resp, err := client.Get("http://" + l.Addr().String())
		check.Equal(t, err == nil, c.served, "from %s: %v", c.from, err)
		if err == nil {
			resp.Body.Close()
		}
	}
	check.NoError(t, server.Close())
	check.ErrorIs(t, <-ended, http.ErrServerClosed)
}
