package couchdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrClosed is what Put answers after Close.
var ErrClosed = errors.New("store is closed")

// writeBulk sends documents in one request. It answers one error per document,
// nil for one that is written, or one error for the request.
type writeBulk func(ctx context.Context, docs []Document) ([]error, error)

// records buffers documents and sends them in batches. Several senders run
// side by side; one of them at a time, the leader, waits for the next batch.
//
// Invariant: held == queued + in requests, for documents and bytes.
type records struct {
	cfg    RecordsConfig
	write  writeBulk
	log    *slog.Logger
	leader chan struct{} // capacity 1: holds the token of the leader
	wake   chan struct{} // capacity 1: a document came or a flush began
	doubt  chan struct{} // capacity 1: a document came under suspicion

	mu        sync.Mutex
	queue     []waiting
	queued    int // bytes in queue
	held      int // documents not yet written
	heldBytes int
	flushing  int
	spooled   bool // the spool may hold documents
	draining  bool // one sender empties the spool
	closed    bool
	changed   chan struct{} // closed and replaced when held shrinks
	pace      pace
	condition condition
	stats     RecordStats
	suspects  []*suspect
	// spoolCondition is that of the disk that the spool is on.
	spoolCondition condition
}

// waiting is a document in the queue.
type waiting struct {
	doc   Document
	since time.Time
}

// RecordStats counts what became of records since the start.
type RecordStats struct {
	Written   uint64 `json:"written"`   // documents that the database holds
	Conflicts uint64 `json:"conflicts"` // of these, documents it held already
	Rejected  uint64 `json:"rejected"`  // documents it will never take
	Spooled   uint64 `json:"spooled"`   // documents that went to the spool
	Requests  uint64 `json:"requests"`  // requests that succeeded
	Failures  uint64 `json:"failures"`  // requests that failed and were repeated
	Buried    uint64 `json:"buried"`    // documents that went to the dead letters
}

func newRecords(cfg RecordsConfig, write writeBulk, log *slog.Logger) *records {
	r := &records{
		cfg: cfg, write: write, log: log,
		leader:  make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		doubt:   make(chan struct{}, 1),
		changed: make(chan struct{}),
		pace:    pace{max: cfg.Linger},
		spooled: cfg.Spool != nil, // a former process may have left some
	}
	r.leader <- struct{}{}
	return r
}

func (r *records) put(ctx context.Context, doc Document) error {
	for {
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return ErrClosed
		}
		fits, changed := r.fits(len(doc.Body)), r.changed
		spool := r.cfg.Spool != nil && (!fits || r.condition.failing())
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
			r.nudge()
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

// fits tells whether the buffer takes size more bytes. An empty buffer takes
// any one document.
func (r *records) fits(size int) bool {
	return r.held == 0 || r.held < r.cfg.BufferDocs && r.heldBytes+size <= r.cfg.BufferBytes
}

func (r *records) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.fits(0) || r.cfg.Spool != nil && r.spoolCondition.failing()
}

func (r *records) enqueue(doc Document) {
	now := time.Now()
	r.pace.arrive(now)
	r.queue = append(r.queue, waiting{doc, now})
	r.queued += len(doc.Body)
	r.held++
	r.heldBytes += len(doc.Body)
}

// nudge lets the leader look at the queue again.
func (r *records) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run sends batches until ctx ends.
func (r *records) run(ctx context.Context) {
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
func (r *records) requeue(batch []Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, doc := range batch {
		r.queue = append(r.queue, waiting{doc: doc})
		r.queued += len(doc.Body)
	}
}

// next waits, as the leader, until a batch is due. It returns nil when ctx
// ends.
func (r *records) next(ctx context.Context) []Document {
	select {
	case <-r.leader:
	case <-ctx.Done():
		return nil
	}
	defer func() { r.leader <- struct{}{} }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, wait := r.due()
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

// idleWait is how long a leader without documents sleeps; a nudge ends it.
const idleWait = time.Hour

// due cuts a batch off the queue if it is time, else tells how long to wait.
func (r *records) due() ([]Document, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil, idleWait
	}
	linger := r.pace.linger()
	age := time.Since(r.queue[0].since)
	hurry := r.flushing > 0 || !r.fits(0) ||
		len(r.queue) >= min(r.cfg.BatchDocs, wantDocs) || r.queued >= r.cfg.BatchBytes
	if !hurry && age < linger {
		return nil, linger - age
	}
	return r.cut(), 0
}

// cut takes the oldest documents that fit into one request, at least one.
func (r *records) cut() []Document {
	n, bytes := 0, 0
	for n < len(r.queue) && n < r.cfg.BatchDocs {
		bytes += len(r.queue[n].doc.Body)
		if n > 0 && bytes > r.cfg.BatchBytes {
			break
		}
		n++
	}
	batch := make([]Document, n)
	for i := range batch {
		batch[i] = r.queue[i].doc
		r.queued -= len(batch[i].Body)
	}
	clear(r.queue[:n])
	if r.queue = r.queue[n:]; len(r.queue) == 0 {
		r.queue = nil
	}
	return batch
}

// shut refuses further documents and frees whoever waits to put one.
func (r *records) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.announce()
}

// close, after the senders have ended, saves what they left.
func (r *records) close() error {
	r.mu.Lock()
	left := make([]Document, len(r.queue))
	for i, w := range r.queue {
		left[i] = w.doc
	}
	for _, s := range r.suspects {
		left = append(left, s.doc)
	}
	r.suspects = nil
	r.queue, r.queued, r.held, r.heldBytes = nil, 0, 0, 0
	r.mu.Unlock()
	switch {
	case len(left) == 0:
		return nil
	case r.cfg.Spool == nil:
		return fmt.Errorf("close store: %d records are not written", len(left))
	}
	return r.spool(left)
}

// announce tells waiters that held, or closed, has changed. The caller holds
// the lock.
func (r *records) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// release takes a document out of the buffer for good. The caller holds the
// lock.
func (r *records) release(doc Document) {
	r.held--
	r.heldBytes -= len(doc.Body)
	r.announce()
}

func (r *records) flush(ctx context.Context) error {
	r.mu.Lock()
	r.flushing++
	r.mu.Unlock()
	r.nudge()
	defer func() {
		r.mu.Lock()
		r.flushing--
		r.mu.Unlock()
	}()
	for {
		r.mu.Lock()
		held, changed := r.held, r.changed
		r.mu.Unlock()
		if held == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("flush %d records: %w", held, ctx.Err())
		}
	}
}
