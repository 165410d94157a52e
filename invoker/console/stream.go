package console

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
)

// event is what a page is sent. All pages are sent the same one, which is
// compressed once.
type event struct {
	plain  []byte
	prefix int
	packed []byte // made when somebody takes it
}

func newEvent(name string, data []byte) *event {
	e := &event{plain: make([]byte, 0, len(data)+64)}
	e.plain = fmt.Appendf(e.plain, "event: %s\ndata: ", name)
	e.prefix = len(e.plain)
	e.plain = append(append(e.plain, data...), "\n\n"...)
	return e
}

func (e *event) data() []byte { return e.plain[e.prefix : len(e.plain)-2] }

// packer compresses events, each without a look at those before: so that it can
// be sent into any stream.
type packer struct {
	z    *flate.Writer
	into bytes.Buffer
}

func (p *packer) pack(e *event) ([]byte, error) {
	p.into.Reset()
	if p.z == nil {
		p.z, _ = flate.NewWriter(&p.into, flate.BestSpeed) // a level that there is
	} else {
		p.z.Reset(&p.into)
	}
	if _, err := p.z.Write(e.plain); err != nil {
		return nil, err
	}
	if err := p.z.Flush(); err != nil { // it ends at a whole byte then
		return nil, err
	}
	return bytes.Clone(p.into.Bytes()), nil
}

func (c *console) packed(e *event) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if e.packed == nil {
		e.packed, err = c.packer.pack(e)
	}
	return e.packed, err
}

// stream is what one page hears, compressed where it takes that: the states of a
// thousand functions are much alike.
type stream struct {
	c       *console
	w       http.ResponseWriter
	control *http.ResponseController
	gzip    bool
	begun   bool
	sum     uint32 // of what was sent, before compression
	size    uint32
}

func (c *console) stream(w http.ResponseWriter, r *http.Request) *stream {
	s := &stream{c: c, w: w, control: http.NewResponseController(w), gzip: strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")}
	if s.gzip {
		w.Header().Set("Content-Encoding", "gzip")
	}
	return s
}

// gzipHead begins a stream of gzip (RFC 1952): deflate, no time, no name, of an
// unknown system. gzipLast is an empty last block (RFC 1951, 3.2.6).
var (
	gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}
	gzipLast = []byte{3, 0}
)

func (s *stream) send(e *event) error {
	text := e.plain
	if s.gzip {
		var err error
		if text, err = s.c.packed(e); err != nil {
			return err
		}
		if !s.begun {
			text = append(bytes.Clone(gzipHead), text...)
		}
		s.sum, s.size = crc32.Update(s.sum, crc32.IEEETable, e.plain), s.size+uint32(len(e.plain))
	}
	s.begun = true
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// end makes what was sent a whole stream, for who reads on.
func (s *stream) end() {
	if s.gzip && s.begun {
		tail := binary.LittleEndian.AppendUint32(bytes.Clone(gzipLast), s.sum)
		_, _ = s.w.Write(binary.LittleEndian.AppendUint32(tail, s.size)) // the page has gone if this fails
	}
}
