package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/logs"
)

// stream reads a container's log through the API and gives it in the form of
// the log file, byte for byte. Each collection asks anew, from the time of the
// last line on: that makes the daemon look through the log once more, so the
// file is the better way where it can be read.
type stream struct {
	api *client.Client
	id  string
	// settle is how long a reading that does not follow waits before it asks:
	// the daemon answers with what it has, and lines take a moment to get there.
	settle time.Duration

	// The place in the log. Only whole lines count; of the newest, rest is
	// still to go.
	place place
	rest  []byte

	pump   *pump
	follow bool
}

// Begin asks for the lines from the last one on.
func (s *stream) Begin(ctx context.Context, follow bool) error {
	options := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: follow}
	if since := s.place.since(); !since.IsZero() {
		options.Since = since.Format(time.RFC3339Nano)
	}
	if !follow {
		select {
		case <-time.After(s.settle):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	body, err := s.api.ContainerLogs(ctx, s.id, options)
	if err != nil {
		cancel()
		return fmt.Errorf("read logs of container %s: %w", s.id, err)
	}
	s.pump = startPump(body, cancel, again{place: s.place})
	s.follow = follow
	return nil
}

// lastLines is how many lines Skip asks for: more than come again when the
// next reading asks from the older of the two streams' last ones on.
const lastLines = 64

// Skip goes to the end of the log.
func (s *stream) Skip(ctx context.Context) error {
	body, err := s.api.ContainerLogs(ctx, s.id, client.ContainerLogsOptions{
		ShowStdout: true, ShowStderr: true, Timestamps: true, Tail: strconv.Itoa(lastLines),
	})
	if err != nil {
		return fmt.Errorf("read logs of container %s: %w", s.id, err)
	}
	defer body.Close()
	for in := bufio.NewReader(body); ; {
		e, err := readEntry(in)
		if errors.Is(err, io.EOF) {
			s.rest = nil
			return nil
		}
		if err != nil {
			return fmt.Errorf("read logs of container %s: %w", s.id, err)
		}
		if s.place == (place{}) { // what came before has no line of interest
			s.place = place{out: newest{at: e.at}, err: newest{at: e.at}}
		}
		s.advance(e)
	}
}

// Read gives bytes of lines that have arrived. Where it does not follow, the
// response has an end, and Read waits for the rest of it.
func (s *stream) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(s.rest) == 0 {
			entry, ok := s.pump.take(!s.follow && n == 0)
			if !ok {
				break
			}
			s.advance(entry)
		}
		done := copy(p[n:], s.rest)
		s.rest = s.rest[done:]
		n += done
	}
	if n > 0 {
		return n, nil
	}
	return 0, s.pump.end()
}

func (s *stream) advance(entry entry) {
	s.place.pass(entry)
	s.rest = logs.AppendLine(nil, entry.stream, entry.at, entry.text)
}

// End stops the daemon's sending and waits for the pump.
func (s *stream) End() {
	s.pump.stop()
	s.pump = nil
}

// Close has nothing to do: each collection closes what it opened.
func (s *stream) Close() error { return nil }

// The names of the streams in the form of the log file.
const (
	stdout = "stdout"
	stderr = "stderr"
)

// entry is one message of the daemon's log.
type entry struct {
	at     time.Time
	stream string
	text   []byte
}

// maxQueued bounds the lines that wait for the collector. Beyond it the
// daemon's sending is held up.
const maxQueued = 256

// maxMessage bounds one message; the daemon's copier makes none beyond 16 KiB
// of text.
const maxMessage = 1 << 20

// pump moves the messages of one response into a channel, so that reading it
// never waits. It owns one goroutine; stop waits for it.
type pump struct {
	body   io.Closer
	cancel context.CancelFunc
	queue  chan entry
	err    error // set before queue is closed
	wg     sync.WaitGroup
	closed bool // the reader has seen queue closed
}

// startPump leaves out the lines that an earlier reading has seen.
func startPump(body io.ReadCloser, cancel context.CancelFunc, seen again) *pump {
	p := &pump{body: body, cancel: cancel, queue: make(chan entry, maxQueued)}
	stopped := make(chan struct{})
	p.cancel = sync.OnceFunc(func() { close(stopped); cancel() })
	p.wg.Go(func() {
		defer close(p.queue)
		in := bufio.NewReaderSize(body, 32<<10)
		for {
			e, err := readEntry(in)
			if err != nil {
				p.err = err
				return
			}
			if seen.has(e) {
				continue
			}
			select {
			case p.queue <- e:
			case <-stopped:
				return
			}
		}
	})
	return p
}

func (p *pump) take(wait bool) (entry, bool) {
	if wait {
		e, ok := <-p.queue
		p.closed = !ok
		return e, ok
	}
	select {
	case e, ok := <-p.queue:
		p.closed = !ok
		return e, ok
	default:
		return entry{}, false
	}
}

// end tells how the response ended, or nil while it goes on.
func (p *pump) end() error {
	if !p.closed {
		return nil
	}
	if p.err == nil || errors.Is(p.err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("read logs: %w", p.err)
}

func (p *pump) stop() {
	p.cancel()
	_ = p.body.Close()
	p.wg.Wait()
}

// readEntry reads one frame: a byte for the stream, three of nothing, four for
// the length, then the time, a space and the text.
func readEntry(in *bufio.Reader) (entry, error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return entry{}, err
	}
	size := binary.BigEndian.Uint32(head[4:])
	if size > maxMessage {
		return entry{}, fmt.Errorf("log message of %d bytes is too long", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(in, body); err != nil {
		return entry{}, fmt.Errorf("log message is cut off: %w", err)
	}
	switch stdcopy.StdType(head[0]) {
	case stdcopy.Stdout:
		return parseEntry(stdout, body)
	case stdcopy.Stderr:
		return parseEntry(stderr, body)
	}
	return entry{}, fmt.Errorf("log message of kind %d: %s", head[0], bytes.TrimSpace(body))
}

func parseEntry(stream string, body []byte) (entry, error) {
	stamp, text, _ := bytes.Cut(body, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return entry{}, fmt.Errorf("log message without time: %w", err)
	}
	return entry{at: at, stream: stream, text: text}, nil
}
