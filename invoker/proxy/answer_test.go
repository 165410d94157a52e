package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestAnswersThatAreNone(t *testing.T) {
	endless := strings.Repeat("X-Header: "+strings.Repeat("v", 1000)+"\r\n", 100)
	for name, text := range map[string]string{
		"chunked":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"until close":       "HTTP/1.1 200 OK\r\n\r\n{}",
		"204":               "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
		"205":               "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
		"304":               "HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n",
		"101":               "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"no HTTP":           "hello\r\n\r\n",
		"HTTP/2":            "HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"short status":      "HTTP/1.1 20\r\nContent-Length: 2\r\n\r\n{}",
		"long status":       "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}",
		"no colon":          "HTTP/1.1 200 OK\r\nContent-Length 2\r\n\r\n{}",
		"negative length":   "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
		"signed length":     "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}",
		"two lengths":       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"length overflows":  "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
		"head too large":    "HTTP/1.1 200 OK\r\n" + endless + "Content-Length: 2\r\n\r\n{}",
		"line too long":     "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("v", 70<<10) + "\r\nContent-Length: 2\r\n\r\n{}",
		"endless interim":   strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 4000) + ok("{}"),
		"body is too short": "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{}",
		"far shorter":       "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{}",
		"head cut":          "HTTP/1.1 200 OK\r\nContent-Le",
		"nothing":           "",
	} {
		p := listen(t, func(c net.Conn, r *bufio.Reader) {
			if _, _, err := request(r); err == nil {
				io.WriteString(c, text)
			}
		})
		x := p.client(t).Run(t.Context(), nil, time.Minute, wide)
		check.Equal(t, x.Failure, NoResponse, "%s", name)
		check.That(check.Must(t), x.Err != nil, "%s: %v %v status %d body %q", name, x.Failure, x.Err, x.Status, x.Body)
		check.Equal(t, x.Status, 0, "%s", name)
		check.That(t, x.Body == nil, "%s: %v %v status %d body %q", name, x.Failure, x.Err, x.Status, x.Body)
	}
}

func TestAnswersThatAreUnusualButGood(t *testing.T) {
	for name, text := range map[string]string{
		"no reason":     "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}",
		"bare newlines": "HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
		"interim":       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok("{}"),
		"same length":   "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nContent-Length:2\r\n\r\n{}",
		"long line":     "HTTP/1.1 200 OK\r\nSet-Cookie: " + strings.Repeat("v", 9000) + "\r\nContent-Length: 2\r\n\r\n{}",
		"keep-alive":    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}",
	} {
		p := listen(t, answers(text))
		x := p.client(t).Run(t.Context(), nil, time.Minute, wide)
		check.That(check.Must(t), x.OK(), "%s: %v %v %q", name, x.Failure, x.Err, x.Body)
		check.Equal(t, string(x.Body), "{}", "%s", name)
	}
}

func TestEmptyBodyIsAnAnswer(t *testing.T) {
	p := listen(t, answers(ok("")))
	x := p.client(t).Run(t.Context(), nil, time.Minute, wide)
	check.That(check.Must(t), x.OK(), "%v %v %q", x.Failure, x.Err, x.Body)
	check.Equal(t, len(x.Body), 0)
}

func TestLongAnswerIsTruncated(t *testing.T) {
	p := listen(t, answers(ok("0123456789")))
	for _, c := range []struct {
		limit Limit
		body  string
		cut   bool
	}{
		{Limit{Max: 10, Truncation: 10}, "0123456789", false},
		{Limit{Max: 9, Truncation: 4}, "0123", true},
		{Limit{Max: 9, Truncation: 100}, "0123456789", true},
		{Limit{Max: 0, Truncation: 0}, "", true},
	} {
		x := p.client(t).Run(t.Context(), nil, time.Minute, c.limit)
		check.Equal(t, string(x.Body), c.body, "%+v", c.limit)
		check.Equal(t, x.Truncated, c.cut, "%+v", c.limit)
		check.Equal(t, x.ContentLength, 10, "%+v", c.limit)
		check.Equal(t, x.Failure, None, "%+v", c.limit)
		if x.Truncated && x.Max != c.limit.Max {
			t.Errorf("max %d, want %d", x.Max, c.limit.Max)
		}
	}
}

// TestEndlessAnswerIsTruncated: an endless body takes no more memory than the limit
// allows.
func TestEndlessAnswerIsTruncated(t *testing.T) {
	p := listen(t, func(c net.Conn, r *bufio.Reader) {
		request(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4000000000000\r\n\r\n")
		for block := make([]byte, 64<<10); ; {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	})
	x := p.client(t).Run(t.Context(), nil, time.Minute, Limit{Max: 1000, Truncation: 1000})
	check.That(check.Must(t), x.Truncated, "%v %v, %d bytes", x.Failure, x.Err, len(x.Body))
	check.Equal(t, len(x.Body), 1000, "%v", x.Failure)
}
