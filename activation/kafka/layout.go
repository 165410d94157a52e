package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// What goes over the wire for each activation, fetching messages and sending
// some, is laid out and read here. The client's own codec finds its way through
// a message by reflection, which is well where a message is rare.

// errShort is an answer that ends before it is told.
var errShort = errors.New("kafka: the broker's answer is cut off")

// The versions that are laid out here: the first that know of record batches,
// which came with Kafka 0.11, and the last that the client knows.
const (
	fetchFrom, fetchTo     = 4, 11
	produceFrom, produceTo = 3, 8
)

// frame is the room that a request or an answer takes while somebody works on it.
type frame struct{ bytes []byte }

// frames are those that nobody uses. A large one is not kept.
var frames = sync.Pool{New: func() any { return &frame{make([]byte, 0, 4<<10)} }}

const largeFrame = 512 << 10

func (f *frame) free() {
	if cap(f.bytes) <= largeFrame {
		f.bytes = f.bytes[:0]
		frames.Put(f)
	}
}

// compose begins a request.
func (l *link) compose(key protocol.ApiKey) *frame {
	l.number++
	f := frames.Get().(*frame)
	b := appendInt32(f.bytes[:0], 0) // its length
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(l.versions[key]))
	b = appendInt32(b, l.number)
	f.bytes = appendText(b, l.clientID)
	return f
}

// ask sends a request that compose began, and waits for its answer, after a new
// login where the broker is due one. It takes the request, and gives the answer
// without its head; whoever has read that frees it.
func (l *link) ask(f *frame, limit time.Duration) (*frame, error) {
	if err := l.refresh(); err != nil {
		f.free()
		return nil, err
	}
	l.used = time.Now()
	if err := l.conn.SetDeadline(l.used.Add(limit)); err != nil {
		f.free()
		return nil, err
	}
	binary.BigEndian.PutUint32(f.bytes, uint32(len(f.bytes)-4))
	_, err := l.conn.Write(f.bytes)
	f.free()
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(l.conn, l.head[:]); err != nil {
		return nil, begun(err)
	}
	size, number := int32(binary.BigEndian.Uint32(l.head[:])), int32(binary.BigEndian.Uint32(l.head[4:]))
	if number != l.number || size < 4 {
		return nil, fmt.Errorf("kafka: answer %d of %d bytes to request %d", number, size, l.number)
	}
	f = frames.Get().(*frame)
	if err := f.read(l.conn, int(size)-4); err != nil {
		f.free()
		return nil, err
	}
	return f, nil
}

// read fills the frame. What a broker says of the size is believed as far as it
// has come.
func (f *frame) read(from io.Reader, size int) error {
	for f.bytes = f.bytes[:0]; len(f.bytes) < size; {
		had := len(f.bytes)
		n := min(size-had, max(had, largeFrame))
		f.bytes = slices.Grow(f.bytes, n)[:had+n]
		if _, err := io.ReadFull(from, f.bytes[had:]); err != nil {
			return begun(err)
		}
	}
	return nil
}

// begun is an error in the middle of an answer, where no end is expected.
func begun(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func appendInt32(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

func appendInt64(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

// cursor reads an answer from its begin on. Behind its end everything is zero.
type cursor struct {
	left  []byte
	short bool // there was less than what was asked for
}

// take is the next n bytes.
func (c *cursor) take(n int64) []byte {
	if n < 0 || n > int64(len(c.left)) {
		c.left, c.short = nil, true
		return nil
	}
	taken := c.left[:n:n]
	c.left = c.left[n:]
	return taken
}

func (c *cursor) int16() int16 {
	if b := c.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) int32() int32 {
	if b := c.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) int64() int64 {
	if b := c.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// varint is a number of no fixed size, as those within a record are.
func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.left)
	if n <= 0 {
		c.left, c.short = nil, true
		return 0
	}
	c.left = c.left[n:]
	return v
}

// skipText passes a string; its length is -1 where there is none.
func (c *cursor) skipText() { c.take(int64(max(c.int16(), 0))) }

// err tells whether there was less than what was asked for.
func (c *cursor) err() error {
	if c.short {
		return errShort
	}
	return nil
}
