// Package records writes activation records to a store that may be slow or unreachable.
// It gathers records in batches, repeats failed requests, stores waiting records on
// disk, and puts aside records that the store never accepts. The adapter of a store
// writes a batch and classifies its errors.
//
// A Queue owns its goroutines: the senders and the goroutine that retries suspects start
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

// ErrClosed is the error of Put after Close.
var ErrClosed = errors.New("store is closed")

// The meanings of an error of a Write. Without one of these meanings, a failed request
// is repeated, and a failed document is sent a few times.
var (
	// ErrExists: the store already has the document; ids are never used twice.
	ErrExists = errors.New("it exists")
	// ErrTooLarge: the document, or the request, is too large.
	ErrTooLarge = errors.New("too large")
	// ErrRefused: sending it again unchanged is useless.
	ErrRefused = errors.New("refused")
	// ErrUnavailable, for a document: its part of the store is unreachable. The document
	// is sent until that part is back.
	ErrUnavailable = errors.New("away")
)

// Classify gives an error one of the meanings above, with an unchanged text.
func Classify(err, meaning error) error { return classified{err, meaning} }

type classified struct{ err, meaning error }

func (m classified) Error() string   { return m.err.Error() }
func (m classified) Unwrap() []error { return []error{m.err, m.meaning} }

// Write sends documents in one request. It returns an error per document, nil for a
// written one, or one error for the whole request. Without documents, it reports whether
// the store accepts requests.
type Write func(ctx context.Context, docs []Document) ([]error, error)

// Queue buffers documents and sends them in batches. Several senders run concurrently.
// One of the senders, the leader, waits for the next batch.
//
// Invariant: unwritten == queued + in requests, for documents and bytes.
type Queue struct {
	cfg    Config
	write  Write
	log    *slog.Logger
	leader chan struct{} // capacity 1: holds the leader's token
	wake   chan struct{} // capacity 1: a document arrived or a flush began
	doubt  chan struct{} // capacity 1: there is a new suspect

	name string // of the store, for the log
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu             sync.Mutex
	queue          []Document
	queued         int       // bytes in the queue
	due            time.Time // when its first document must be sent
	unwritten      int       // unwritten documents
	unwrittenBytes int
	flushing       int
	spooled        bool // the spool may hold documents
	draining       bool // a sender is emptying the spool
	closed         bool
	changed        chan struct{} // closed and replaced when unwritten decreases
	condition      retry.Condition
	refusals       retry.Condition // state of a store that answers but accepts no document
	lastTaken      time.Time       // when the store last accepted a document
	stats          Stats
	suspects       []*suspect
	parked         bool       // a flush has left the suspects to the spool
	sent           []Document // sent documents that the spool keeps while some are suspects
	// spoolCondition is the state of the spool's disk.
	spoolCondition retry.Condition
}

// Stats counts the outcomes of records since the start.
type Stats struct {
	Written      uint64 `json:"written"`      // documents in the database
	Conflicts    uint64 `json:"conflicts"`    // documents among them that already existed
	Rejected     uint64 `json:"rejected"`     // documents that were given up
	Spooled      uint64 `json:"spooled"`      // documents written to the spool
	Requests     uint64 `json:"requests"`     // successful requests
	Failures     uint64 `json:"failures"`     // failed requests, which were repeated
	DeadLettered uint64 `json:"deadLettered"` // documents written to the dead letters
}

// Open creates a queue to a store and starts its senders. name is the store's name in
// the log. Each Write gets the configured timeout. If log is nil, nothing is logged.
func Open(cfg Config, name string, write Write, log *slog.Logger) *Queue {
	cfg = cfg.withDefaults()
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
		spooled: cfg.Spool != nil, // an earlier process may have left documents
	}
	r.leader <- struct{}{}
	return r
}

// Put enqueues a document. It blocks while the buffer is full and there is no spool; the
// caller should accept no more work then. The error is the context's, the spool's, or
// ErrClosed.
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
		// A spool that fails is like a full buffer: wait.
		select {
		case <-changed:
		case <-time.After(spoolRetry):
		case <-ctx.Done():
			return fmt.Errorf("put record %s: %w", doc.ID, ctx.Err())
		}
	}
}

// spoolRetry is how long a Put that waits for space does not try the spool.
const spoolRetry = time.Second

// fits reports whether the buffer has room for size more bytes. An empty buffer accepts
// any document.
func (r *Queue) fits(size int) bool {
	return r.unwritten == 0 || r.unwritten < r.cfg.BufferDocs && r.unwrittenBytes+size <= r.cfg.BufferBytes
}

// Full reports whether Put would block or use the spool now.
func (r *Queue) Full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.fits(0) || r.cfg.Spool != nil && !r.spoolCondition.OK()
}

// enqueue appends a document to the buffer. The first document of a batch waits for
// others while requests are under way. In an idle queue it is due at once.
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

// signal wakes the receiver of a channel of capacity 1. It is a no-op if a signal is
// pending.
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
		if left := r.deliver(ctx, batch); len(left) > 0 {
			r.requeue(left)
		}
	}
}

// requeue puts back documents that could not be sent before the end.
func (r *Queue) requeue(batch []Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, doc := range batch {
		r.queue = append(r.queue, doc)
		r.queued += len(doc.Body)
	}
}

// next waits, as the leader, until a batch is due. It returns nil if ctx ends.
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
	// idleWait is how long a leader without documents sleeps, unless it is woken.
	idleWait = time.Hour
	// wantDocs is an efficient batch size: above it, CouchDB's cost per document falls
	// slowly.
	wantDocs = 64
)

// batch takes a batch off the queue if it is due, otherwise it returns how long to wait.
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

// cut removes and returns the oldest documents that fit into one request, at least one.
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

// shut makes Put refuse documents, and ends its waiting callers.
func (r *Queue) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.announce()
}

// Close ends the goroutines. Unwritten documents go to the spool; without a spool they
// are lost, and the error counts them. Call Flush before.
func (r *Queue) Close() error {
	r.shut()
	r.stop()
	r.wg.Wait()
	return r.close()
}

// close saves the remaining documents after the senders have ended.
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

// announce wakes waiters after a change of unwritten or closed. The caller must hold mu.
func (r *Queue) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// release removes a document from the count of unwritten ones. The caller must hold mu.
func (r *Queue) release(doc Document) {
	r.unwritten--
	r.unwrittenBytes -= len(doc.Body)
	r.announce()
}

// Flush blocks until every enqueued document is written or spooled.
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
