package runtimes_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// dial opens a raw connection to the proxy.
func (p *running) dial() net.Conn {
	p.t.Helper()
	c, err := p.connect(p.t.Context(), "", "")
	check.NoError(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(waitLimit))
	return c
}

func wire(path, body string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

func statusOf(r *bufio.Reader) int {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestKeepAliveAndPipelining(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.echo)
		c := p.dial()
		r := bufio.NewReader(c)
		for range 2 {
			io.WriteString(c, wire("/run", runBody(`{}`)))
			check.Equal(check.Must(t), statusOf(r), 200, "one after the other")
		}
		io.WriteString(c, wire("/run", runBody(`{}`))+wire("/run", runBody(`{}`)))
		for range 2 {
			status := statusOf(r)
			check.That(t, status == 200 || status == 403, "at once: %d", status)
		}
	})
}

// TestConnectionIsUsedAgain: the proxy announces how long it keeps a connection, so that the
// invoker sends later runs by one that it has.
func TestConnectionIsUsedAgain(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.echo)
		c := proxy.NewDialing(p.addr, 1, p.connect)
		defer c.Close()
		limit := proxy.Limit{Max: 1 << 20, Truncation: 1 << 20}
		for i := range 4 {
			x := c.Run(t.Context(), []byte(runBody(`{}`)), waitLimit, limit)
			check.That(t, x.OK(), "run %d: %s %v", i, x.Failure, x.Err)
			check.Equal(t, x.Reused, i >= 2, "run %d: its connection was used before", i)
		}
	})
}

// TestConnectionThatTheInvokerEnds: a request that asks for the end of its connection gets it.
func TestConnectionThatTheInvokerEnds(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.echo)
		c := p.dial()
		io.WriteString(c, strings.Replace(wire("/run", runBody(`{}`)), "Host: h", "Host: h\r\nConnection: close", 1))
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		check.NoError(t, err)
		check.Equal(t, resp.Close, true)
		_, _ = io.Copy(io.Discard, resp.Body)
		_, err = r.ReadByte()
		check.ErrorIs(t, err, io.EOF)
	})
}

func TestRequestInPieces(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.echo)
		c := p.dial()
		for _, b := range []byte(wire("/run", runBody(`{"s":"ü"}`))) {
			c.Write([]byte{b})
		}
		check.Equal(t, statusOf(bufio.NewReader(c)), 200)
	})
}

func TestExpectContinue(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.echo)
		c := p.dial()
		r := bufio.NewReader(c)
		head, body, _ := strings.Cut(wire("/run", runBody(`{}`)), "\r\n\r\n")
		io.WriteString(c, head+"\r\nExpect: 100-continue\r\n\r\n")
		line, err := r.ReadString('\n')
		check.NoError(t, err, "%q", line)
		check.That(check.Must(t), strings.HasPrefix(line, "HTTP/1.1 100 "), "%q %v", line, err)
		r.ReadString('\n')
		io.WriteString(c, body)
		check.Equal(t, statusOf(r), 200)
	})
}

// TestBytesThatAreNoRequest: whatever bytes arrive, the proxy neither ends nor blocks
// other requests.
func TestBytesThatAreNoRequest(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.echo)
		idle := p.dial() // sends nothing
		half := p.dial()
		io.WriteString(half, "POST /run HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf")
		for name, text := range map[string]string{
			"garbage":         "\x00\x01\x02\r\n\r\n",
			"TLS":             "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
			"negative length": "POST /run HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
			"no number":       "POST /run HTTP/1.1\r\nHost: h\r\nContent-Length: ten\r\n\r\n",
			"huge length":     "POST /run HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n",
			"huge head":       "POST /run HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n",
		} {
			c := p.dial()
			io.WriteString(c, text)
			if status := statusOf(bufio.NewReader(c)); status != 0 {
				check.AtLeast(t, status, 400, "%s", name)
				check.That(t, status != 500, "%s", name)
			}
			c.Close()
		}
		status, text := p.post("/run", runBody(`{}`))
		check.Equal(t, status, 200, "after all that: %d %q", status, text)
		idle.Close()
		half.Close()
		status, text = p.post("/run", runBody(`{}`))
		check.Equal(t, status, 200, "after a request was left half: %d %q", status, text)
	})
}

// TestInvokerThatLeaves: the proxy survives a connection that an invoker abandons.
func TestInvokerThatLeaves(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.echo)
		for range 3 {
			c := p.dial()
			io.WriteString(c, wire("/run", runBody(`{"big":"`+strings.Repeat("y", 64<<10)+`"}`)))
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
		status, text := p.post("/run", runBody(`{}`))
		check.That(t, status == 200 || status == 403, "%d %q", status, text)
	})
}
