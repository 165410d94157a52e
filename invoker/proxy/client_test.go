package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var wide = Limit{Max: 1 << 20, Truncation: 1 << 20}

// peer is a scripted action proxy: serve handles each connection.
type peer struct {
	net.Listener
	conns atomic.Int32
}

func listen(t *testing.T, serve func(c net.Conn, r *bufio.Reader)) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	p := &peer{Listener: l}
	var wg sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Add(1)
			wg.Go(func() {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				serve(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		end()
		wg.Wait()
	})
	return p
}

func (p *peer) client(t *testing.T) *Client {
	c := New(p.Addr().String(), 1)
	t.Cleanup(c.Close)
	return c
}

// request reads one request and returns its path and body.
func request(r *bufio.Reader) (path, body string, err error) {
	q, err := http.ReadRequest(r)
	if err != nil {
		return "", "", err
	}
	b, err := io.ReadAll(q.Body)
	return q.URL.Path, string(b), err
}

// answers returns a handler that answers every request on a connection with the same
// bytes.
func answers(text string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		for {
			if _, _, err := request(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

func ok(body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

func TestRequestsAreWhatAnActionExpects(t *testing.T) {
	var head string
	p := listen(t, func(c net.Conn, r *bufio.Reader) {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(q.Body)
		head = q.Method + " " + q.URL.Path + " " + q.Host + " " + q.Header.Get("Content-Type") + " " +
			q.Header.Get("Accept") + " " + q.Header.Get("Accept-Encoding") + strconv.FormatInt(q.ContentLength, 10)
		io.WriteString(c, ok(string(body)))
	})
	body := `{"value":"` + strings.Repeat("ü", 1<<20) + `"}`
	limit := Limit{Max: 8 << 20, Truncation: 8 << 20}
	x := p.client(t).Init(t.Context(), []byte(body), time.Minute, limit)
	want := "POST /init " + p.Addr().String() + " application/json application/json " + strconv.Itoa(len(body))
	check.That(check.Must(t), x.OK(), "status %d %v %v, head %q, want %q", x.Status, x.Failure, x.Err, head, want)
	check.Equal(t, string(x.Body), body, "status %d %v", x.Status, x.Failure)
	check.Equal(t, head, want, "status %d %v", x.Status, x.Failure)
	check.That(t, !x.End.Before(x.Start), "took %v, length %d", x.Elapsed(), x.ContentLength)
	check.Equal(t, x.ContentLength, int64(len(body)), "took %v, length", x.Elapsed())
}

func TestTimeouts(t *testing.T) {
	drip := func(text string) func(net.Conn, *bufio.Reader) {
		return func(c net.Conn, r *bufio.Reader) {
			request(r)
			io.WriteString(c, text)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
			}
		}
	}
	silent := func(_ net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) }
	for name, serve := range map[string]func(net.Conn, *bufio.Reader){
		"silent":      silent,
		"slow status": drip(""),
		"slow header": drip("HTTP/1.1 200 OK\r\nX: "),
		"slow body":   drip("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"),
	} {
		const timeout = 30 * time.Millisecond
		x := listen(t, serve).client(t).Run(t.Context(), []byte("{}"), timeout, wide)
		check.Equal(t, x.Failure, Timeout, "%s", name)
		check.AtLeast(t, x.Elapsed(), timeout, "%s", name)
	}
}

func TestUnreadRequestTimesOut(t *testing.T) {
	over := make(chan struct{})
	p := listen(t, func(net.Conn, *bufio.Reader) { <-over })
	defer close(over)
	x := p.client(t).Run(t.Context(), make([]byte, 32<<20), 50*time.Millisecond, wide)
	check.Equal(t, x.Failure, Timeout)
}

// TestAnswerBeforeTheRequestWasRead: a proxy may answer without reading the whole body.
func TestAnswerBeforeTheRequestWasRead(t *testing.T) {
	p := listen(t, func(c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil { // only the head
			return
		}
		io.WriteString(c, "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 2\r\n\r\n{}")
		io.Copy(io.Discard, r)
	})
	x := p.client(t).Init(t.Context(), make([]byte, 8<<20), time.Minute, wide)
	check.Equal(t, x.Failure, None)
	check.Equal(t, x.Status, 413)
}

func TestCancelEndsACallAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := listen(t, func(_ net.Conn, r *bufio.Reader) {
		request(r)
		cancel()
		io.Copy(io.Discard, r)
	})
	check.Equal(t, p.client(t).Run(ctx, nil, time.Hour, wide).Failure, Cancelled)
	check.Equal(t, p.client(t).Init(ctx, nil, time.Hour, wide).Failure, Cancelled, "init after cancel")
}

// vacant returns an address where nothing listens.
func vacant(t *testing.T) string {
	t.Helper()
	// Use a port below the range from which Linux assigns ports, and one that no other
	// package uses in its tests.
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 18000+rand.IntN(1000))
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

func TestRunIsNotRepeated(t *testing.T) {
	x := New(vacant(t), 1).Run(t.Context(), nil, time.Minute, wide)
	check.Equal(t, x.Failure, Refused)
	check.That(t, x.Broken(), "%v %v", x.Failure, x.Err)
	p := listen(t, func(_ net.Conn, r *bufio.Reader) { request(r) })
	check.Equal(t, p.client(t).Run(t.Context(), nil, time.Minute, wide).Failure, NoResponse)
	check.Equal(t, p.conns.Load(), 1)
}

func TestInitWaitsForTheProxy(t *testing.T) {
	addr := vacant(t)
	done := make(chan Exchange, 1)
	c := New(addr, 1)
	defer c.Close()
	go func() { done <- c.Init(t.Context(), []byte("{}"), time.Minute, wide) }()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	defer l.Close()
	conn, err := l.Accept()
	check.NoError(t, err)
	defer conn.Close()
	request(bufio.NewReader(conn))
	io.WriteString(conn, ok("{}"))
	x := check.Receive(t, done)
	check.That(t, x.OK(), "%v %v", x.Failure, x.Err)
}

func TestInitGivesUpAtItsTimeout(t *testing.T) {
	const timeout = 20 * time.Millisecond
	x := New(vacant(t), 1).Init(t.Context(), nil, timeout, wide)
	check.Equal(t, x.Failure, Timeout)
	check.AtLeast(t, x.Elapsed(), timeout)
	check.That(check.Must(t), x.Err != nil, "%v %v after %v", x.Failure, x.Err, x.Elapsed())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	check.Equal(t, New(vacant(t), 1).Init(ctx, nil, time.Hour, wide).Failure, Cancelled)
}

func TestInitThatReachedTheProxyIsNotRepeated(t *testing.T) {
	p := listen(t, func(_ net.Conn, r *bufio.Reader) { request(r) })
	check.Equal(t, p.client(t).Init(t.Context(), nil, time.Minute, wide).Failure, NoResponse)
	check.Equal(t, p.conns.Load(), 1)
}

func TestParallelRuns(t *testing.T) {
	const n = 8
	var waiting sync.WaitGroup
	waiting.Add(n)
	p := listen(t, func(c net.Conn, r *bufio.Reader) {
		for {
			_, body, err := request(r)
			if err != nil {
				return
			}
			waiting.Done()
			waiting.Wait() // concurrent calls, or the test never ends
			io.WriteString(c, keeps("5", body))
		}
	})
	c := New(p.Addr().String(), n)
	defer c.Close()
	for range 3 {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				body := strconv.Itoa(i)
				check.Equal(t, string(c.Run(t.Context(), []byte(body), time.Minute, wide).Body), body)
			})
		}
		wg.Wait()
		waiting.Add(n)
	}
	check.Equal(t, p.conns.Load(), 2*n, "connections: the first answers announce that they are kept")
}

func TestCloseLeavesNothingOpen(t *testing.T) {
	gone := make(chan struct{})
	p := listen(t, func(c net.Conn, r *bufio.Reader) {
		answers(ok("{}"))(c, r)
		close(gone)
	})
	c := p.client(t)
	c.Run(t.Context(), nil, time.Minute, wide)
	c.Close()
	check.Receive(t, gone)
}

// TestUnixSocket: the client waits until the proxy's socket exists.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(r.Host)))
		_, _ = io.WriteString(w, r.Host)
	})}
	dials := 0
	c := NewDialing(path, 1, func(ctx context.Context, _, addr string) (net.Conn, error) {
		if dials++; dials == 3 {
			l, err := net.Listen("unix", addr)
			check.NoError(t, err)
			go func() { _ = server.Serve(l) }()
		}
		return new(net.Dialer).DialContext(ctx, "unix", addr)
	})
	defer c.Close()
	x := c.Init(t.Context(), nil, time.Minute, Limit{Max: 100, Truncation: 100})
	check.NoError(t, x.Err)
	check.Equal(t, string(x.Body), "localhost")
	check.Equal(t, dials, 3)
	check.NoError(t, server.Close())
}
