package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleRecordGoesAtOnce(t *testing.T) {
	d := newDatabase()
	bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
		for i := range 5 {
			start := time.Now()
			put(t, r, doc(i))
			synctest.Wait()
			if d.count() != i+1 || time.Since(start) != 0 {
				t.Errorf("after %v: %d documents", time.Since(start), d.count())
			}
			time.Sleep(time.Second)
		}
	})
}

// TestLoadFillsBatches puts a thousand records a second for two seconds.
func TestLoadFillsBatches(t *testing.T) {
	d := newDatabase()
	d.busy = 5 * time.Millisecond
	bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
		for i := range 2000 {
			put(t, r, doc(i))
			time.Sleep(time.Millisecond)
		}
		flush(t, r)
		if d.count() != 2000 {
			t.Errorf("%d documents", d.count())
		}
		if n := len(d.batches); n > 70 {
			t.Errorf("%d requests for 2000 documents", n)
		}
	})
}

func TestLingerIsBounded(t *testing.T) {
	d := newDatabase()
	bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
		for i := range 100 {
			put(t, r, doc(i))
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if d.count() != 100 {
			t.Errorf("%d documents 50 ms after the last", d.count())
		}
	})
}

func TestBatchLimits(t *testing.T) {
	d := newDatabase()
	d.busy = 100 * time.Millisecond
	cfg := Config{Requests: 2, BatchDocs: 10, BatchBytes: 400}
	bubble(t, cfg, d, func(t *testing.T, r *Queue) {
		big := doc(1000)
		big.Body = []byte(`{"_id":"` + big.ID + `","x":"` + strings.Repeat("x", 1000) + `"}`)
		for i := range 50 {
			put(t, r, doc(i))
		}
		put(t, r, big)
		flush(t, r)
		for _, n := range d.batches {
			if n > 10 || n*len(doc(1).Body) > 400 {
				t.Errorf("batch of %d", n)
			}
		}
		if d.count() != 51 || d.most > 2 {
			t.Errorf("%d documents, %d requests at once", d.count(), d.most)
		}
	})
}

func TestFullBufferBlocks(t *testing.T) {
	d := newDatabase()
	d.down = status(http.StatusServiceUnavailable)
	bubble(t, Config{BufferDocs: 3}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0), doc(1), doc(2))
		if !r.Full() {
			t.Error("not full")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Put(ctx, doc(3)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		d.set(func() { d.down = nil })
		put(t, r, doc(4))
		flush(t, r)
		if d.count() != 4 {
			t.Errorf("%d documents", d.count())
		}
	})
}

func TestRetryUntilItWorks(t *testing.T) {
	for _, down := range []error{
		status(http.StatusUnauthorized), status(http.StatusNotFound), status(http.StatusTooManyRequests),
		status(http.StatusInternalServerError), errors.New("connection refused"),
	} {
		t.Run(down.Error(), func(t *testing.T) {
			d := newDatabase()
			d.down = down
			bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
				put(t, r, doc(0), doc(1))
				time.Sleep(time.Minute)
				h := r.Health()
				if h.Writes.LastError != down.Error() || time.Since(h.Writes.Since) < 59*time.Second {
					t.Errorf("health %+v", h.Writes)
				}
				if h.Records.Failures < 10 || h.Records.Failures > 60 || h.BufferedDocs != 2 {
					t.Errorf("health %+v", h)
				}
				d.set(func() { d.down = nil })
				flush(t, r)
				h = r.Health()
				if !h.Writes.OK() || h.Records.Written != 2 || h.BufferedDocs != 0 {
					t.Errorf("health %+v", h)
				}
			})
		})
	}
}

func TestConflictCountsAsWritten(t *testing.T) {
	d := newDatabase()
	d.docs[doc(1).ID] = "there already"
	bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0), doc(1), doc(2))
		flush(t, r)
		if r.stats.Written != 3 || r.stats.Conflicts != 1 || d.docs[doc(1).ID] != "there already" {
			t.Errorf("stats %+v", r.stats)
		}
	})
}

// TestBadDocumentLosesNoNeighbour: a document that makes the database refuse a
// request is isolated, and everything else is written.
func TestBadDocumentLosesNoNeighbour(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge} {
		d := newDatabase()
		d.poison[doc(37).ID] = code
		d.busy = 10 * time.Millisecond
		var lost []string
		cfg := Config{Requests: 1, Rejected: func(id string, err error) { lost = append(lost, id) }}
		bubble(t, cfg, d, func(t *testing.T, r *Queue) {
			for i := range 100 {
				put(t, r, doc(i))
			}
			flush(t, r)
			if d.count() != 99 || len(lost) != 1 || lost[0] != doc(37).ID || r.stats.Rejected != 1 {
				t.Errorf("status %d: %d documents, lost %v", code, d.count(), lost)
			}
		})
	}
}

func TestTooLargeRecordKeepsItsResult(t *testing.T) {
	d := newDatabase()
	d.tooBig = 5 << 20
	bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
		line := strings.Repeat("l", 1<<20)
		big := doc(1)
		big.Body = fmt.Appendf(nil, `{"_id":%q,"logs":[%q,%q,%q,%q,%q,%q,%q,%q,%q],"response":{"result":{"n":1E+3}}}`,
			big.ID, line, line, line, line, line, line, line, line, line)
		put(t, r, big, doc(2))
		flush(t, r)
		kept := d.docs[big.ID]
		if d.count() != 2 || strings.Count(kept, line) != 4 || !strings.HasSuffix(kept, `"response":{"result":{"n":1E+3}}}`) {
			t.Errorf("%d documents, %d lines kept", d.count(), strings.Count(kept, line))
		}
	})
}

func TestDocumentErrorIsTriedAgain(t *testing.T) {
	d := newDatabase()
	d.bad[doc(1).ID] = true
	rejected := 0
	cfg := Config{Rejected: func(string, error) { rejected++ }}
	bubble(t, cfg, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0), doc(1), doc(2))
		flush(t, r)
		if d.count() != 2 || rejected != 1 || r.stats.Requests < documentTries {
			t.Errorf("%d documents, %d rejected, %+v", d.count(), rejected, r.stats)
		}
	})
}

func TestSpoolTakesOverAndDrains(t *testing.T) {
	d := newDatabase()
	d.down = errors.New("connection refused")
	spool := &memorySpool{}
	spool.docs = []Document{doc(1000), doc(1001)} // left by a former process
	bubble(t, Config{BufferDocs: 10, Spool: spool, BatchDocs: 7}, d, func(t *testing.T, r *Queue) {
		for i := range 40 {
			put(t, r, doc(i)) // never blocks
			time.Sleep(time.Second)
		}
		if spool.Documents() < 30 {
			t.Errorf("%d documents in the spool", spool.Documents())
		}
		d.set(func() { d.down = nil })
		time.Sleep(20 * time.Second)
		flush(t, r)
		if d.count() != 42 || spool.Documents() != 0 {
			t.Errorf("%d documents, %d left in the spool", d.count(), spool.Documents())
		}
		put(t, r, doc(50))
		flush(t, r)
		if spool.Documents() != 0 || d.count() != 43 {
			t.Errorf("%d documents are spooled, %d stored", spool.Documents(), d.count())
		}
	})
}

func TestCloseSavesWhatIsLeft(t *testing.T) {
	for _, spool := range []*memorySpool{nil, {}} {
		d := newDatabase()
		d.down = errors.New("connection refused")
		cfg := Config{}
		if spool != nil {
			cfg.Spool = spool
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			r := newQueue(cfg.WithDefaults(), "store", d.write, slog.New(slog.DiscardHandler))
			var wg sync.WaitGroup
			wg.Go(func() { r.run(ctx) })
			put(t, r, doc(0), doc(1))
			synctest.Wait()
			r.shut()
			stop()
			wg.Wait()
			err := r.close()
			if spool == nil && err == nil {
				t.Error("lost records without an error")
			}
			if spool != nil && (err != nil || spool.Documents() != 2) {
				t.Errorf("%v, %d in the spool", err, spool.Documents())
			}
			if err := r.Put(ctx, doc(3)); !errors.Is(err, ErrClosed) {
				t.Errorf("put after close: %v", err)
			}
		})
	}
}

func TestFlushEndsWithItsContext(t *testing.T) {
	d := newDatabase()
	d.down = errors.New("connection refused")
	bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// TestStored: every document is settled exactly once, before a flush that
// waited for it returns.
func TestStored(t *testing.T) {
	d := newDatabase()
	d.poison[doc(3).ID] = http.StatusBadRequest
	d.docs[doc(4).ID] = "there already"
	d.bad[doc(5).ID] = true
	bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
		settled := map[string][]error{}
		var mu sync.Mutex
		for i := range 8 {
			doc := doc(i)
			doc.Stored = func(batch int, err error) {
				mu.Lock()
				defer mu.Unlock()
				settled[doc.ID] = append(settled[doc.ID], err)
				if (batch == 0) != (err != nil) {
					t.Errorf("document %d: one of a batch of %d, %v", i, batch, err)
				}
			}
			put(t, r, doc)
		}
		flush(t, r)
		mu.Lock()
		defer mu.Unlock()
		for i := range 8 {
			ends := settled[doc(i).ID]
			refused := i == 3 || i == 5
			if len(ends) != 1 || (ends[0] != nil) != refused {
				t.Errorf("document %d: %v", i, ends)
			}
		}
	})
}

// TestStoredHasTheBatch: Stored is given how many documents were in the request, so
// the documents that are given a number are a multiple of it.
func TestStoredHasTheBatch(t *testing.T) {
	d := newDatabase()
	d.busy = time.Second // all are there before the first request ends
	bubble(t, Config{Requests: 1, BatchDocs: 5}, d, func(t *testing.T, r *Queue) {
		var mu sync.Mutex
		counts := map[int]int{}
		for i := range 12 {
			doc := doc(i)
			doc.Stored = func(batch int, _ error) {
				mu.Lock()
				defer mu.Unlock()
				counts[batch]++
			}
			put(t, r, doc)
		}
		flush(t, r)
		mu.Lock()
		defer mu.Unlock()
		all := 0
		for batch, n := range counts {
			if batch < 1 || batch > 5 || n%batch != 0 {
				t.Errorf("%d documents counts of a batch of %d", n, batch)
			}
			all += n
		}
		if all != 12 || counts[5] == 0 {
			t.Errorf("counts of %v, want 12 and full batches", counts)
		}
	})
}
