// Package records brings activation records to a store that may be slow or away:
// it gathers them in batches, repeats what fails, keeps on disk what waits, and
// puts aside what the store will never take. How a batch is written, and what a
// failure means, is the adapter's.
//
// A Queue owns its goroutines: the senders and the one that tries suspects start
// in Open and end in Close.
package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// ErrClosed is what Put answers after Close.
var ErrClosed = errors.New("store is closed")

// What an error of a Write means, where it is not simply a failure: a request
// that fails is repeated, a document that fails is sent a few times.
var (
	// ErrExists: the store has the document already; ids are never used twice.
	ErrExists = errors.New("it exists")
	// ErrTooLarge: the document, or the request, is too large.
	ErrTooLarge = errors.New("too large")
	// ErrRefused: to send it again as it is would be no use.
	ErrRefused = errors.New("refused")
	// ErrUnavailable, of a document: the part of the store that it belongs to is away.
	// It is sent until that is back.
	ErrUnavailable = errors.New("away")
)

// Classify gives an error one of the meanings above and leaves its text alone.
func Classify(err, meaning error) error { return classified{err, meaning} }

type classified struct{ err, meaning error }

func (m classified) Error() string   { return m.err.Error() }
func (m classified) Unwrap() []error { return []error{m.err, m.meaning} }

// Write sends documents in one request. It answers one error per document,
// nil for one that is written, or one error for the request. Of no documents it
// reports whether the store takes any.
type Write func(ctx context.Context, docs []Document) ([]error, error)

// Queue buffers documents and sends them in batches. Several senders run
// side by side; one of them at a time, the leader, waits for the next batch.
//
// Invariant: unwritten == queued + in requests, for documents and bytes.
type Queue struct {
	cfg    Config
	write  Write
	log    *slog.Logger
	leader chan struct{} // capacity 1: has the token of the leader
	wake   chan struct{} // capacity 1: a document came or a flush began
	doubt  chan struct{} // capacity 1: a document came under suspicion

	name string // of the store, for the log
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu             sync.Mutex
	queue          []Document
	queued         int       // bytes in queue
	due            time.Time // when its first document is to be sent
	unwritten      int       // documents not yet written
	unwrittenBytes int
	flushing       int
	spooled        bool // the spool may hold documents
	draining       bool // one sender empties the spool
	closed         bool
	changed        chan struct{} // closed and replaced when unwritten shrinks
	condition      retry.Condition
	refusals       retry.Condition // of a store that answers, and takes no document
	lastTaken      time.Time       // when the store took a document
	stats          Stats
	suspects       []*suspect
	parked         bool       // a flush left suspects to the spool
	sent           []Document // of the spool, which keeps them as long as some are suspects
	// spoolCondition is that of the disk that the spool is on.
	spoolCondition retry.Condition
}

// Stats counts what became of records since the start.
type Stats struct {
	Written      uint64 `json:"written"`      // documents that are in the database
	Conflicts    uint64 `json:"conflicts"`    // of these, documents that were there already
	Rejected     uint64 `json:"rejected"`     // documents it will never take
	Spooled      uint64 `json:"spooled"`      // documents that went to the spool
	Requests     uint64 `json:"requests"`     // requests that succeeded
	Failures     uint64 `json:"failures"`     // requests that failed and were repeated
	DeadLettered uint64 `json:"deadLettered"` // documents that went to the dead letters
}

// Open starts a queue to a store of that name. No Write takes longer than the
// configured timeout. A nil log discards.
func Open(cfg Config, name string, write Write, log *slog.Logger) *Queue {
	cfg = cfg.WithDefaults()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := newQueue(cfg, name, func(ctx context.Context, docs []Document) ([]error, error) {
		ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
		defer cancel()
		return write(ctx, docs)
	}, log)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	for range cfg.Requests {
		r.wg.Go(func() { r.run(ctx) })
	}
	r.wg.Go(func() { r.clear(ctx) })
	return r
}

func newQueue(cfg Config, name string, write Write, log *slog.Logger) *Queue {
	r := &Queue{
		cfg: cfg, name: name, write: write, log: log,
		leader:  make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		doubt:   make(chan struct{}, 1),
		changed: make(chan struct{}),
		spooled: cfg.Spool != nil, // a former process may have left some
	}
	r.leader <- struct{}{}
	return r
}

// Put hands over a document. It blocks while the buffer is full and there is no
// spool; then the caller should take on no more work. The error is the
// context's, the spool's, or ErrClosed.
func (r *Queue) Put(ctx context.Context, doc Document) error {
	for {
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return ErrClosed
		}
		fits, changed := r.fits(len(doc.Body)), r.changed
		spool := r.cfg.Spool != nil && (!fits || !r.condition.OK())
		if fits && !spool {
			r.enqueue(doc)
		}
		r.mu.Unlock()
		switch {
		case spool:
			if err := r.spool([]Document{doc}); err == nil {
				return nil
			}
		case fits:
			signal(r.wake)
			return nil
		}
		// A spool that takes nothing is pressure, as a full buffer is.
		select {
		case <-changed:
		case <-time.After(spoolRetry):
		case <-ctx.Done():
			return fmt.Errorf("put record %s: %w", doc.ID, ctx.Err())
		}
	}
}

// spoolRetry is how long a put that waits for space leaves the spool alone.
const spoolRetry = time.Second

// fits reports whether the buffer takes size more bytes. An empty buffer takes
// any one document.
func (r *Queue) fits(size int) bool {
	return r.unwritten == 0 || r.unwritten < r.cfg.BufferDocs && r.unwrittenBytes+size <= r.cfg.BufferBytes
}

// Full reports whether Put would block or spool now.
func (r *Queue) Full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.fits(0) || r.cfg.Spool != nil && !r.spoolCondition.OK()
}

// enqueue puts a document into the buffer. The first of a batch waits for company
// while others are under way, and for nothing when the queue is idle.
func (r *Queue) enqueue(doc Document) {
	if len(r.queue) == 0 {
		r.due = time.Now()
		if r.unwritten > 0 {
			r.due = r.due.Add(r.cfg.Linger)
		}
	}
	r.queue = append(r.queue, doc)
	r.queued += len(doc.Body)
	r.unwritten++
	r.unwrittenBytes += len(doc.Body)
}

// signal wakes what waits on a channel of capacity 1: one signal is enough.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run sends batches until ctx ends.
func (r *Queue) run(ctx context.Context) {
	for {
		r.drainSpool(ctx)
		batch := r.next(ctx)
		if batch == nil {
			return
		}
		r.requeue(r.deliver(ctx, batch))
	}
}

// requeue puts documents back that could not be sent before the end.
func (r *Queue) requeue(batch []Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, doc := range batch {
		r.queue = append(r.queue, doc)
		r.queued += len(doc.Body)
	}
}

// next waits, as the leader, until a batch is due. It returns nil when ctx
// ends.
func (r *Queue) next(ctx context.Context) []Document {
	select {
	case <-r.leader:
	case <-ctx.Done():
		return nil
	}
	defer func() { r.leader <- struct{}{} }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, wait := r.batch()
		if batch != nil {
			return batch
		}
		timer.Reset(wait)
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

const (
	// idleWait is how long a leader without documents sleeps; a nudge ends it.
	idleWait = time.Hour
	// wantDocs is a batch that is cheap enough: beyond it CouchDB's cost of a
	// document falls slowly.
	wantDocs = 64
)

// batch cuts a batch off the queue if it is time, else returns how long to wait.
func (r *Queue) batch() ([]Document, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil, idleWait
	}
	wait := time.Until(r.due)
	hurry := r.flushing > 0 || !r.fits(0) ||
		len(r.queue) >= min(r.cfg.BatchDocs, wantDocs) || r.queued >= r.cfg.BatchBytes
	if !hurry && wait > 0 {
		return nil, wait
	}
	return r.cut(), 0
}

// cut takes the oldest documents that fit into one request, at least one.
func (r *Queue) cut() []Document {
	n, bytes := 0, 0
	for n < len(r.queue) && n < r.cfg.BatchDocs {
		bytes += len(r.queue[n].Body)
		if n > 0 && bytes > r.cfg.BatchBytes {
			break
		}
		n++
	}
	batch := slices.Clone(r.queue[:n])
	for _, doc := range batch {
		r.queued -= len(doc.Body)
	}
	clear(r.queue[:n])
	if r.queue = r.queue[n:]; len(r.queue) == 0 {
		r.queue = nil
	}
	return batch
}

// shut refuses further documents and ends the wait of callers of Put.
func (r *Queue) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.announce()
}

// Close ends the goroutines. Documents that are not written go to the spool;
// without one they are lost and counted in the error. Call Flush before.
func (r *Queue) Close() error {
	r.shut()
	r.stop()
	r.wg.Wait()
	return r.close()
}

// close, after the senders have ended, saves what they left.
func (r *Queue) close() error {
	r.mu.Lock()
	left := slices.Clone(r.queue)
	suspects := r.suspects
	r.suspects = nil
	r.queue, r.queued, r.unwritten, r.unwrittenBytes = nil, 0, 0, 0
	r.mu.Unlock()
	for _, s := range suspects {
		if r.cfg.Spool != nil || r.cfg.DeadLetters == nil || r.cfg.DeadLetters.Add(s.doc, s.err) != nil {
			left = append(left, s.doc)
		}
	}
	switch {
	case len(left) == 0:
		return nil
	case r.cfg.Spool == nil:
		return fmt.Errorf("close store: %d records are not written", len(left))
	}
	return r.spool(left)
}

// announce wakes waiters when unwritten, or closed, has changed. The caller holds
// the lock.
func (r *Queue) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// release takes a document out of the buffer for good. The caller holds the
// lock.
func (r *Queue) release(doc Document) {
	r.unwritten--
	r.unwrittenBytes -= len(doc.Body)
	r.announce()
}

// Flush waits until every document that was put is written or spooled.
func (r *Queue) Flush(ctx context.Context) error {
	r.mu.Lock()
	r.flushing++
	r.mu.Unlock()
	signal(r.wake)
	signal(r.doubt)
	defer func() {
		r.mu.Lock()
		r.flushing--
		r.parked = r.parked && r.flushing > 0
		r.mu.Unlock()
	}()
	for {
		r.mu.Lock()
		unwritten, changed := r.unwritten, r.changed
		r.mu.Unlock()
		if unwritten == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("flush %d records: %w", unwritten, ctx.Err())
		}
	}
}
