package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Bounds on what an answer may hold besides its body. An action is not
// trusted: a head that never ends must cost neither memory nor a worker.
const (
	maxHead    = 64 << 10
	maxInterim = 16       // 1xx answers before the real one
	firstRead  = 64 << 10 // memory taken on the word of Content-Length alone
)

var (
	errHead     = errors.New("the answer's head is malformed or too large")
	errNoLength = errors.New("the answer declares no length")
)

// head is what matters of an answer's status line and headers.
type head struct {
	status  int
	length  int64 // -1 when not declared
	chunked bool
	close   bool
	charset string // as in Content-Type, empty when not given
}

// receive reads one answer. An answer without a declared length, or with a
// status that has no body, counts as none: the original cannot read it either
// (ApacheBlockingContainerClient, HttpUtils).
func (k *conn) receive(limit Limit, x *Exchange) (keep bool, err error) {
	h, err := readHead(k.r)
	if err != nil {
		return false, fmt.Errorf("read answer of action: %w", err)
	}
	if h.length < 0 || h.chunked || bodiless(h.status) {
		return false, fmt.Errorf("read answer of action with status %d: %w", h.status, errNoLength)
	}
	x.Status, x.ContentLength = h.status, h.length
	want := h.length
	if h.length > limit.Max {
		x.Truncated, x.Max = true, limit.Max
		want = min(want, max(limit.Truncation, 0))
	}
	text, err := readBody(k.r, want)
	if err != nil {
		return false, fmt.Errorf("read body of answer of action: %w", err)
	}
	x.Body = decode(text, h.charset)
	return !h.close && !x.Truncated && k.r.Buffered() == 0, nil
}

func bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusResetContent ||
		status == http.StatusNotModified
}

// readBody reads n bytes, and takes memory as they come, not as promised.
func readBody(r *bufio.Reader, n int64) ([]byte, error) {
	if n <= firstRead {
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	var b bytes.Buffer
	b.Grow(firstRead)
	if m, err := b.ReadFrom(io.LimitReader(r, n)); err != nil || m < n {
		return nil, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	return b.Bytes(), nil
}

// readHead reads up to the empty line, past interim answers.
func readHead(r *bufio.Reader) (head, error) {
	room := maxHead
	for range maxInterim {
		h, err := readOneHead(r, &room)
		if err != nil || h.status >= 200 {
			return h, err
		}
		if h.status == http.StatusSwitchingProtocols {
			return h, errHead
		}
	}
	return head{}, errHead
}

func readOneHead(r *bufio.Reader, room *int) (head, error) {
	h := head{length: -1}
	line, err := readLine(r, room)
	if err != nil {
		return h, err
	}
	if !h.statusLine(line) {
		return h, errHead
	}
	for {
		line, err := readLine(r, room)
		if err != nil {
			return h, err
		}
		if len(line) == 0 {
			return h, nil
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || !h.field(name, bytes.TrimSpace(value)) {
			return h, errHead
		}
	}
}

// readLine returns a line without its end. Of one that is longer than the
// reader's buffer only the beginning is kept: no header we read is so long.
func readLine(r *bufio.Reader, room *int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	*room -= len(line)
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && *room > 0 {
			var more []byte
			more, err = r.ReadSlice('\n')
			*room -= len(more)
		}
	}
	switch {
	case *room < 0:
		return nil, errHead
	case err == io.EOF && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// statusLine reads "HTTP/1.1 200 OK"; the reason may be missing.
func (h *head) statusLine(line []byte) bool {
	const version = "HTTP/1."
	if len(line) < len(version)+5 || string(line[:len(version)]) != version {
		return false
	}
	h.close = line[len(version)] == '0'
	rest := line[len(version)+1:]
	if rest[0] != ' ' || len(rest) > 4 && rest[4] != ' ' {
		return false
	}
	n, err := strconv.ParseUint(string(rest[1:4]), 10, 16)
	h.status = int(n)
	return err == nil && n >= 100
}

// field reads one header. False means that the answer's length cannot be
// trusted, and so nothing after its head.
func (h *head) field(name, value []byte) bool {
	switch {
	case is(name, "content-length"):
		n, err := strconv.ParseUint(string(value), 10, 62)
		if err != nil || h.length >= 0 && h.length != int64(n) {
			return false
		}
		h.length = int64(n)
	case is(name, "transfer-encoding"):
		h.chunked = true
	case is(name, "connection"):
		h.close = is(value, "close") || h.close && !is(value, "keep-alive")
	case is(name, "content-type"):
		h.charset = charsetOf(value)
	}
	return true
}

// is compares without case; want is in lower case.
func is(text []byte, want string) bool {
	if len(text) != len(want) {
		return false
	}
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != want[i] {
			return false
		}
	}
	return true
}
