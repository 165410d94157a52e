package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// stream reads a container's log through the API and gives it in the form of
// the log file, byte for byte. Each collection asks anew, from the time of the
// last line on: that makes the daemon read the log once more, so the
// file is the better way where it can be read.
type stream struct {
	api *client.Client
	id  string
	// settle is how long a reading that does not follow waits before it asks:
	// the daemon answers with what it has, and lines take a moment to get there.
	settle time.Duration

	// The position in the log. Only whole lines count; of the newest, rest is
	// still to go.
	position position
	rest     []byte

	pump   *pump
	follow bool
}

// Begin asks for the lines from the last one on.
func (s *stream) Begin(ctx context.Context, follow bool) error {
	options := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: follow}
	if since := s.position.since(); !since.IsZero() {
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
	s.pump = startPump(ctx, body, cancel, again{position: s.position})
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
		if s.position == (position{}) { // what came before has no line of interest
			s.position = position{out: newest{at: e.at}, err: newest{at: e.at}}
		}
		s.advance(e)
	}
}

// Read returns bytes of lines that have arrived. If the stream does not follow the log, the
// response has an end, and Read waits for the rest of the response.
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
	s.position.pass(entry)
	s.rest = logs.AppendLine(nil, entry.stream, entry.at, entry.text)
}

// End stops the daemon's sending and waits for the pump.
func (s *stream) End() {
	s.pump.stop()
	s.pump = nil
}

// Close is a no-op: each collection closes its own response.
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
// daemon's sending is blocked.
const maxQueued = 256

// maxMessage bounds one message; the daemon's copier makes none beyond 16 KiB
// of text.
const maxMessage = 1 << 20

// pump moves the messages of one response into a channel, so that a reader never waits. It
// owns one goroutine, and stop waits for the goroutine's end.
type pump struct {
	body   io.Closer
	cancel context.CancelFunc
	queue  chan entry
	err    error // set before queue is closed
	wg     sync.WaitGroup
	closed bool // the reader has seen queue closed
}

// startPump leaves out the lines that an earlier reading has seen.
func startPump(ctx context.Context, body io.ReadCloser, cancel context.CancelFunc, seen again) *pump {
	p := &pump{body: body, cancel: cancel, queue: make(chan entry, maxQueued)}
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
			case <-ctx.Done():
				p.err = ctx.Err()
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

// end reports how the response ended, or nil while it goes on.
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

// settleTime is long against the daemon's delay between a container's write
// and its log. Every reading of a container without sentinels waits so long.
const settleTime = 20 * time.Millisecond

// openLog prefers the daemon's file. It is there as soon as the container
// runs, so if it cannot be opened it will not be later either.
func (e *Engine) openLog(id container.ID) (logs.Source, error) {
	for _, dir := range e.options.LogDirs {
		if file, err := logs.OpenFile(filepath.Join(dir, string(id), string(id)+"-json.log")); err == nil {
			return file, nil
		}
	}
	return &stream{api: e.api, id: string(id), settle: settleTime}, nil
}

// position is how far a container's log has been read, in each of its streams.
// The API can only be asked for the lines from a time on, and gives them in the
// order in which the daemon wrote them. Within a stream that is the order of
// their times; across the two it is not, because the daemon reads each by
// itself: a line can be written before an older one of the other stream. So
// lines are asked for from the older of the two streams' last lines on.
type position struct{ out, err newest }

// newest is the last line of a stream, and how many have its time: the pieces
// of one line do.
type newest struct {
	at    time.Time
	lines int
}

// maxLate is how much older than the newest line a line may be that the daemon has not
// written yet. It bounds the lines that are read again while one stream is silent.
const maxLate = 5 * time.Second

func (p *position) of(stream string) *newest {
	if stream == stderr {
		return &p.err
	}
	return &p.out
}

// pass moves the position behind a line.
func (p *position) pass(e entry) {
	l := p.of(e.stream)
	if !e.at.Equal(l.at) {
		*l = newest{at: e.at}
	}
	l.lines++
}

// since is the time from which lines may be missing: zero at the beginning.
func (p *position) since() time.Time {
	older, newer := p.out.at, p.err.at
	if older.After(newer) {
		older, newer = newer, older
	}
	if newer.IsZero() {
		return newer
	}
	if bound := newer.Add(-maxLate); older.Before(bound) {
		return bound
	}
	return older
}

// again reports which lines of a response were read before. They come first.
type again struct {
	position position
	over     bool
}

func (a *again) has(e entry) bool {
	l := a.position.of(e.stream)
	switch {
	case a.over || e.at.After(l.at) || e.at.Equal(l.at) && l.lines == 0:
		a.over = true
	case e.at.Equal(l.at):
		l.lines--
	}
	return !a.over
}
