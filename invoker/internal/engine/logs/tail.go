package logs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Source gives the log of one container as lines of the json-file form. A
// Tail uses it from one goroutine at a time.
type Source interface {
	// Begin readies the source for one collection. follow is whether lines
	// still to come are wanted; otherwise the source may end with io.EOF
	// where the log stands.
	Begin(ctx context.Context, follow bool) error
	// Read returns the bytes after the last call's, also if that call was in an earlier
	// collection. It does not block: 0 and nil means that there is no output yet, io.EOF
	// that there will be none, and errLost that output is missing before the next bytes.
	Read(p []byte) (int, error)
	// Skip goes to where the log stands now. It is called before all others.
	Skip(ctx context.Context) error
	// End is called when a collection is over, Close when the container is.
	End()
	Close() error
}

// errLost is returned once when a part of the log vanished before it was read. Reading
// continues after the gap.
var errLost = errors.New("part of the log was lost")

// Waits are how long a Tail waits for lines.
type Waits struct {
	// Idle is the longest silence before a sentinel counts as missing, and
	// the unit of the limit for the whole collection: OpenWhisk allows two
	// seconds, and as much again for each MB of the limit, but five at least.
	Idle time.Duration
	// Behind replaces Idle once the log has brought more than a few lines. A
	// daemon that copies many large logs at once can stop for seconds in the
	// middle of one.
	Behind time.Duration
	// Quiet is the silence that ends a reading without sentinels. An action's output
	// reaches the file a moment after the action has answered.
	Quiet time.Duration
	// QuietFailed is the same for an activation that failed: its last lines
	// are on their way while the engine still notices that it ended. It is
	// waited out only where no sentinel comes: after a crash or a timeout.
	QuietFailed time.Duration
	// Answered is the silence after which the sentinels of an activation with a failing
	// answer count as missing. Some runtimes write no sentinels then.
	Answered time.Duration
	// OtherStream is the longest wait for the sentinel of the second stream after the
	// first stream has brought two: one was forged, or the runtime writes both to one
	// stream.
	OtherStream time.Duration
}

// DefaultWaits returns OpenWhisk's two seconds, and silences that are much longer than
// the delay of a daemon, which is a millisecond, or tens of milliseconds on a busy
// machine.
func DefaultWaits() Waits {
	return Waits{
		Idle:        2 * time.Second,
		Behind:      10 * time.Second,
		Quiet:       10 * time.Millisecond,
		QuietFailed: 100 * time.Millisecond,
		Answered:    time.Second,
		OtherStream: 100 * time.Millisecond,
	}
}

const (
	// firstChunk is the size of a Tail's buffer between collections, enough for a few
	// lines and the sentinels. The buffer grows up to chunkSize while reads fill it.
	firstChunk = 4 << 10
	chunkSize  = 256 << 10
	// maxLine bounds one raw line. Docker's pieces hold 16 KiB of text, which
	// escaping makes six times as long at most.
	maxLine = 1 << 20
	// maxDrain limits the search after the last sentinel.
	maxDrain = 1 << 20
	// maxReady limits the bytes that Ready reads, because more take a while to collect. A
	// collection reserves memory beyond this size.
	maxReady = 64 << 10
	// firstPoll and slowPoll bound the pause between two reads of the log. It
	// grows by half each time: a short wait costs little delay, a long one
	// few reads.
	firstPoll = 200 * time.Microsecond
	slowPoll  = 5 * time.Millisecond
)

// Tail reads the log of one container, one activation after the other. It may
// be used from many goroutines; collections run one after the other.
type Tail struct {
	source Source
	waits  Waits

	mu  sync.Mutex
	buf []byte // read from the source, not yet part of any result
}

// remote reports whether the source is something else than a file.
func (t *Tail) remote() bool {
	_, file := t.source.(*File)
	return !file
}

// NewTail starts at the source's beginning. The Tail owns the source.
func NewTail(source Source, waits Waits) *Tail {
	return &Tail{source: source, waits: waits}
}

// Close ends the source. A collection under way ends first.
func (t *Tail) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = nil
	return t.source.Close()
}

// Skip moves to the current end of the log, because the existing lines belong to earlier
// activations.
func (t *Tail) Skip(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = nil
	return t.source.Skip(ctx)
}

// Ready reports whether the log file contains the ends of an activation's output, so
// that Collect would not block. It reads the file to its end at most once. Collect
// reports faults of the file.
func (t *Tail) Ready(req container.LogRequest) bool {
	if t.remote() || !req.WaitForSentinel || !t.mu.TryLock() {
		return false
	}
	defer t.mu.Unlock()
	if t.source.Begin(context.Background(), true) != nil {
		return false
	}
	defer t.source.End()
	r := newReading(t, req, time.Now())
	ends := func() bool { return bytes.Count(r.buf, []byte(Sentinel)) >= 2 }
	for !ends() && len(r.buf) < maxReady && r.fill(context.Background()) {
		continue
	}
	t.buf = r.buf
	return ends()
}

// Collect reads the output of one activation. It always returns a result, which says
// whether output is missing.
func (t *Tail) Collect(ctx context.Context, req container.LogRequest) container.LogResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	began := time.Now()
	var limit *time.Timer
	if t.remote() { // it may hang: then there is an end, too
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		limit = time.AfterFunc(2*t.waits.total(req), cancel)
		defer limit.Stop()
		ctx = limited
	}
	if err := t.source.Begin(ctx, req.WaitForSentinel || req.Answered); err != nil {
		return Unreadable()
	}
	r := newReading(t, req, began)
	r.limit = limit
	r.run(ctx)
	t.buf = r.leave()
	t.source.End()
	if r.abandoned() && t.source.Skip(ctx) == nil {
		t.buf = nil
	}
	if req.Now.IsZero() {
		req.Now = began
	}
	return r.collector.result(req.Now.Add(time.Since(began)))
}

// reading is one collection under way.
type reading struct {
	source      Source
	waits       Waits
	req         container.LogRequest
	collector   *Collector
	buf         []byte // buf[at:] is unread
	at          int
	skipping    bool // inside a line beyond maxLine
	sourceEnded bool // the source has ended
	began       time.Time
	lastNews    time.Time
	poll        time.Duration
	chunk       int
	arrived     int64       // bytes read from the source
	extended    int64       // arrived, when the total time limit last began anew
	reserved    bool        // memory for the whole log
	limit       *time.Timer // ends a collection that hangs; nil: none
}

func newReading(t *Tail, req container.LogRequest, began time.Time) *reading {
	return &reading{
		source: t.source, waits: t.waits, req: req, collector: newCollector(req),
		buf: t.buf, began: began, lastNews: began, poll: firstPoll, chunk: firstChunk,
	}
}

// leave returns the unused bytes. If a flood has grown the buffer, they are copied to a
// small one.
func (r *reading) leave() []byte {
	if cap(r.buf) > 2*firstChunk {
		return bytes.Clone(r.buf[r.at:])
	}
	return r.buf[:copy(r.buf, r.buf[r.at:])]
}

func (r *reading) run(ctx context.Context) {
	for {
		r.lines()
		if r.ended() {
			r.drain(ctx)
			return
		}
		if r.fill(ctx) && time.Since(r.began) < r.total() {
			continue
		}
		left := time.Until(r.deadline())
		if r.sourceEnded || left <= 0 {
			r.giveUp()
			return
		}
		if !r.pause(ctx, left) {
			r.collector.lose()
			return
		}
	}
}

// lines hands over the whole lines in the buffer, up to the end of the
// activation.
func (r *reading) lines() {
	for !r.ended() {
		n := bytes.IndexByte(r.buf[r.at:], '\n')
		if n < 0 {
			r.skipLong()
			return
		}
		if !r.skipping {
			r.collector.Add(r.buf[r.at : r.at+n])
		}
		r.skipping = false
		r.at += n + 1
	}
}

// skipLong drops the beginning of a line that is longer than any engine writes.
func (r *reading) skipLong() {
	if len(r.buf)-r.at > maxLine || r.skipping {
		r.collector.lose()
		r.skipping = true
		r.at = len(r.buf)
	}
}

// ended reports whether the reading is complete: both streams have brought their
// sentinel, or two sentinels came and their activation is unknown because the container
// runs several activations.
func (r *reading) ended() bool {
	if !r.collector.Ended() {
		return false
	}
	if r.req.Alone {
		return (r.req.WaitForSentinel || r.req.Answered) && r.collector.endedOnBoth()
	}
	return true
}

// abandoned reports whether the end of a truncated log did not come although nothing else
// runs in the container. Docker's API sometimes loses the end when it follows a rotated
// log. The existing lines then belong to this activation, not to the next one.
func (r *reading) abandoned() bool {
	return r.req.Alone && r.req.WaitForSentinel && r.collector.truncated && !r.ended()
}

// reserve waits for memory before a collection keeps more than maxReady, and before
// that for the rest of the log. The time limits of the collection stand still
// meanwhile.
func (r *reading) reserve(ctx context.Context) error {
	if r.reserved || r.req.Reserve == nil || r.collector.size+int64(len(r.buf)-r.at) < maxReady {
		return nil
	}
	if r.limit != nil {
		r.limit.Stop()
		defer func() { r.limit.Reset(2 * r.total()) }()
	}
	asked := time.Now()
	r.await(ctx)
	if err := r.req.Reserve(); err != nil {
		return err
	}
	r.reserved = true
	waited := time.Since(asked)
	r.began, r.lastNews = r.began.Add(waited), r.lastNews.Add(waited)
	return nil
}

// await waits until the log file has the end of the output, and keeps nothing of the
// output meanwhile: a log that is late must not hold memory that others wait for.
func (r *reading) await(ctx context.Context) {
	file, ok := r.source.(*File)
	if !ok || !r.req.WaitForSentinel {
		return
	}
	ahead, err := file.clone()
	if err != nil {
		return // then the wait follows the reservation
	}
	defer ahead.Close()
	look := &reading{
		source: ahead, waits: r.waits, req: r.req, collector: r.collector.counter(), buf: bytes.Clone(r.buf[r.at:]),
		arrived: r.arrived, began: r.began, lastNews: r.lastNews, poll: firstPoll, chunk: firstChunk, reserved: true,
	}
	look.run(ctx)
	if !look.ended() { // the end was waited for already
		r.waits.Idle, r.waits.Behind = r.waits.Quiet, r.waits.Quiet
	}
}

// fill reads the available bytes of the source. It reports whether there were any.
func (r *reading) fill(ctx context.Context) bool {
	if r.reserve(ctx) != nil { // the work has ended
		r.collector.lose()
		r.sourceEnded = true
		return false
	}
	if r.at > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.at:])]
		r.at = 0
	}
	if cap(r.buf)-len(r.buf) < r.chunk {
		r.buf = append(make([]byte, 0, len(r.buf)+r.chunk), r.buf...)
	}
	n, err := r.source.Read(r.buf[len(r.buf) : len(r.buf)+r.chunk])
	r.buf = r.buf[:len(r.buf)+n]
	if n == r.chunk {
		r.chunk = min(4*r.chunk, chunkSize)
	}
	switch {
	case errors.Is(err, errLost):
		r.collector.lose()
		r.lastNews = time.Now()
		return true
	case errors.Is(err, io.EOF):
		r.sourceEnded = true
	case err != nil:
		r.collector.lose()
		r.sourceEnded = true
	}
	if n > 0 {
		r.lastNews, r.poll = time.Now(), firstPoll
		r.arrived += int64(n)
		r.extend()
	}
	return n > 0
}

// extend starts the total time limit anew each time that an eighth of the log limit
// has arrived. So a daemon that is behind with a large log does not cost the log's
// end. A collection still has an end: bytes far beyond the log limit do not count.
func (r *reading) extend() {
	if r.arrived > 2*r.req.LimitBytes || r.arrived-r.extended < max(r.req.LimitBytes/8, maxReady) {
		return
	}
	r.extended, r.began = r.arrived, r.lastNews
	if r.limit != nil {
		r.limit.Reset(2 * r.total())
	}
}

// deadline is until when the next byte is waited for.
func (r *reading) deadline() time.Time {
	silence := r.waits.Quiet
	switch {
	case r.req.WaitForSentinel && r.collector.Ended():
		silence = r.waits.OtherStream
	case r.req.WaitForSentinel && r.arrived >= maxReady:
		silence = r.waits.Behind
	case r.req.WaitForSentinel:
		silence = r.waits.Idle
	case r.req.Answered && !r.collector.Ended():
		silence = r.waits.Answered
	case r.req.Failed || r.at < len(r.buf): // or in the middle of a line
		silence = r.waits.QuietFailed
	}
	idle := r.lastNews.Add(silence)
	if total := r.began.Add(r.total()); total.Before(idle) {
		return total
	}
	return idle
}

func (r *reading) total() time.Duration { return r.waits.total(r.req) }

// total is the longest that a collection takes of a source that answers and brings
// little.
func (w Waits) total(req container.LogRequest) time.Duration {
	return w.Idle * time.Duration(max(5, req.LimitBytes>>20))
}

// giveUp ends a reading at the last available byte. An incomplete line stays unread,
// because it cannot be parsed, and the result says that output is missing.
func (r *reading) giveUp() {
	r.lines()
	if r.at < len(r.buf) && !r.ended() {
		r.collector.lose()
	}
}

func (r *reading) pause(ctx context.Context, left time.Duration) bool {
	timer := time.NewTimer(min(r.poll, left))
	defer timer.Stop()
	r.poll = min(r.poll+r.poll/2, slowPoll)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// drain reads up to the last sentinel within maxDrain. If the activation had the
// container for itself, these lines are its own: it forged a sentinel, and the lines
// would otherwise appear in the next activation's logs.
func (r *reading) drain(ctx context.Context) {
	if !r.req.Alone {
		return
	}
	for len(r.buf)-r.at < maxDrain && r.fill(ctx) {
		continue
	}
	last := bytes.LastIndex(r.buf[r.at:], []byte(Sentinel))
	if last < 0 {
		return
	}
	length := bytes.IndexByte(r.buf[r.at+last:], '\n')
	if length < 0 {
		return
	}
	for end := r.at + last + length + 1; r.at < end; {
		n := bytes.IndexByte(r.buf[r.at:], '\n')
		r.collector.Add(r.buf[r.at : r.at+n])
		r.at += n + 1
	}
}
