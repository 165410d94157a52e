package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
)

// FuzzReadHead holds the reader of heads against bounds, and against the
// standard library where both take the same bytes.
func FuzzReadHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}"))
	f.Add([]byte("HTTP/1.0 502\nconnection: keep-alive\n\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		source := &counter{r: bytes.NewReader(data)}
		h, err := readHead(bufio.NewReaderSize(source, readBuffer))
		if source.n > maxHead+2*readBuffer {
			t.Fatalf("read %d bytes of a head", source.n)
		}
		if err != nil {
			return
		}
		if h.status < 200 || h.length < -1 {
			t.Fatalf("status %d, length %d", h.status, h.length)
		}
		std, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
		if err != nil || std.StatusCode < 200 || h.chunked || bodiless(h.status) {
			return
		}
		if std.StatusCode != h.status || std.ContentLength != h.length {
			t.Errorf("status %d length %d, net/http says %d and %d",
				h.status, h.length, std.StatusCode, std.ContentLength)
		}
	})
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
