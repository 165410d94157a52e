package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// database is a fake store that keeps documents and fails on demand.
type database struct {
	mu      sync.Mutex
	docs    map[string]string
	batches []int                 // sizes of successful requests
	busy    time.Duration         // duration of a request
	down    error                 // error of every request
	full    bool                  // only an empty request succeeds
	poison  map[string]int        // id -> HTTP status of a request that contains it
	bad     map[string]bool       // id -> error of this document alone
	refuse  func(id string) error // answer to a document, nil if it is stored
	tooBig  int                   // documents of at least this size are refused with 413
	alone   bool                  // refuse the document instead of the whole request
	most    int                   // most concurrent requests so far
	now     int
}

func newDatabase() *database {
	return &database{docs: map[string]string{}, poison: map[string]int{}, bad: map[string]bool{}}
}

// status is an error with an HTTP status and the matching meaning.
type status int

func (s status) Error() string { return http.StatusText(int(s)) }

func (s status) Is(meaning error) bool {
	return map[int]error{
		http.StatusConflict: ErrExists, http.StatusBadRequest: ErrRefused, http.StatusRequestEntityTooLarge: ErrTooLarge,
	}[int(s)] == meaning
}

func (d *database) write(ctx context.Context, docs []Document) ([]error, error) {
	d.enter()
	defer d.leave()
	if d.busy > 0 {
		select {
		case <-time.After(d.busy):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil {
		return nil, d.down
	}
	if len(docs) == 0 {
		return nil, nil
	}
	if d.full {
		return nil, status(http.StatusInternalServerError)
	}
	for _, doc := range docs {
		if s := d.poison[doc.ID]; s != 0 {
			return nil, status(s)
		}
		if !d.alone && d.isTooBig(doc) {
			return nil, status(http.StatusRequestEntityTooLarge)
		}
	}
	d.batches = append(d.batches, len(docs))
	return d.store(docs), nil
}

func (d *database) isTooBig(doc Document) bool { return d.tooBig > 0 && len(doc.Body) > d.tooBig }

func (d *database) enter() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now++
	d.most = max(d.most, d.now)
}

func (d *database) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now--
}

func (d *database) store(docs []Document) []error {
	results := make([]error, len(docs))
	for i, doc := range docs {
		_, there := d.docs[doc.ID]
		switch {
		case d.isTooBig(doc):
			results[i] = status(http.StatusRequestEntityTooLarge)
		case d.bad[doc.ID]:
			results[i] = status(http.StatusInternalServerError)
		case there:
			results[i] = status(http.StatusConflict)
		case d.refuse != nil && d.refuse(doc.ID) != nil:
			results[i] = d.refuse(doc.ID)
		default:
			d.docs[doc.ID] = string(doc.Body)
		}
	}
	return results
}

func (d *database) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *database) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.docs)
}

// memorySpool is a Spool without a disk.
type memorySpool struct {
	mu    sync.Mutex
	docs  []Document
	limit int // most documents; 0: no limit
}

func (m *memorySpool) Append(docs []Document) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit > 0 && len(m.docs)+len(docs) > m.limit {
		return errors.New("the spool is full")
	}
	m.docs = append(m.docs, docs...)
	return nil
}

func (m *memorySpool) Peek(n, _ int) ([]Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Document(nil), m.docs[:min(n, len(m.docs))]...), nil
}

func (m *memorySpool) Remove(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.docs = m.docs[n:]
	return nil
}

func (m *memorySpool) Documents() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.docs)
}

// bubble runs a test with a queue's senders in a synctest bubble.
func bubble(t *testing.T, cfg Config, d *database, test func(t *testing.T, r *Queue)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		cfg := cfg.withDefaults()
		r := newQueue(cfg, "store", d.write, slog.New(slog.DiscardHandler))
		var wg sync.WaitGroup
		for range cfg.Requests {
			wg.Go(func() { r.run(ctx) })
		}
		wg.Go(func() { r.clear(ctx) })
		test(t, r)
		r.shut()
		stop()
		wg.Wait()
		if len(r.queue) == 0 && len(r.suspects) == 0 {
			check.Equal(t, r.unwritten, 0)
			check.Equal(t, r.unwrittenBytes, 0)
			check.Equal(t, r.queued, 0)
		}
	})
}

func doc(i int) Document {
	id := fmt.Sprintf("guest/%032d", i)
	return Document{ID: id, Body: fmt.Appendf(nil, `{"_id":%q,"logs":[]}`, id)}
}

func put(t *testing.T, r *Queue, docs ...Document) {
	t.Helper()
	for _, d := range docs {
		check.NoError(t, r.Put(t.Context(), d))
	}
}

func flush(t *testing.T, r *Queue) {
	t.Helper()
	check.NoError(t, r.Flush(t.Context()))
}
