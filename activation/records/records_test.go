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

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestIdleRecordGoesAtOnce(t *testing.T) {
	d := newDatabase()
	bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
		for i := range 5 {
			start := time.Now()
			put(t, r, doc(i))
			synctest.Wait()
			check.Equal(t, d.count(), i+1)
			check.Equal(t, time.Since(start), 0)
			time.Sleep(time.Second)
		}
	})
}

// TestLoadFillsBatches enqueues a thousand records a second for two seconds.
func TestLoadFillsBatches(t *testing.T) {
	d := newDatabase()
	d.busy = 5 * time.Millisecond
	bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
		for i := range 2000 {
			put(t, r, doc(i))
			time.Sleep(time.Millisecond)
		}
		flush(t, r)
		check.Equal(t, d.count(), 2000)
		check.AtMost(t, len(d.batches), 70, "requests for 2000 documents")
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
		check.Equal(t, d.count(), 100, "documents 50 ms after the last")
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
			check.AtMost(t, n, 10)
			check.AtMost(t, n*len(doc(1).Body), 400)
		}
		check.Equal(t, d.count(), 51)
		check.AtMost(t, d.most, 2)
	})
}

func TestFullBufferBlocks(t *testing.T) {
	d := newDatabase()
	d.down = status(http.StatusServiceUnavailable)
	bubble(t, Config{BufferDocs: 3}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0), doc(1), doc(2))
		check.That(t, r.Full(), "not full")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.ErrorIs(t, r.Put(ctx, doc(3)), context.DeadlineExceeded)
		d.set(func() { d.down = nil })
		put(t, r, doc(4))
		flush(t, r)
		check.Equal(t, d.count(), 4)
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
				check.Equal(t, h.Writes.LastError, down.Error())
				check.AtLeast(t, time.Since(h.Writes.Since), 59*time.Second)
				check.AtLeast(t, h.Records.Failures, 10)
				check.AtMost(t, h.Records.Failures, 60)
				check.Equal(t, h.BufferedDocs, 2)
				d.set(func() { d.down = nil })
				flush(t, r)
				h = r.Health()
				check.That(check.Must(t), h.Writes.OK(), "health %+v", h)
				check.Equal(t, h.Records.Written, 2)
				check.Equal(t, h.BufferedDocs, 0)
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
		check.Equal(t, r.stats.Written, 3)
		check.Equal(t, r.stats.Conflicts, 1)
		check.Equal(t, d.docs[doc(1).ID], "there already")
	})
}

// TestBadDocumentLosesNoNeighbour: a document that makes the database refuse a request
// is isolated, and all others are written.
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
			others(t, r, 1000, 10)
			flush(t, r)
			check.Equal(t, d.count(), 109, "status %d", code)
			check.Equal(check.Must(t), len(lost), 1, "status %d", code)
			check.Equal(t, lost[0], doc(37).ID, "status %d", code)
			check.Equal(t, r.stats.Rejected, 1, "status %d", code)
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
		check.Equal(t, d.count(), 2)
		check.Equal(t, strings.Count(kept, line), 4)
		check.That(t, strings.HasSuffix(kept, `"response":{"result":{"n":1E+3}}}`), "%d documents, %d lines kept", d.count(), strings.Count(kept, line))
	})
}

func TestDocumentErrorIsTriedAgain(t *testing.T) {
	d := newDatabase()
	d.bad[doc(1).ID] = true
	rejected := 0
	cfg := Config{Rejected: func(string, error) { rejected++ }}
	bubble(t, cfg, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0), doc(1), doc(2))
		time.Sleep(time.Minute)
		check.Equal(t, d.count(), 2)
		h := r.Health()
		check.Equal(t, h.Records.Rejected, 0, "within a minute")
		check.AtLeast(t, h.Records.Requests, 10)
		put(t, r, doc(3))
		flush(t, r)
		check.Equal(t, rejected, 1)
	})
}

func TestSpoolTakesOverAndDrains(t *testing.T) {
	d := newDatabase()
	d.down = errors.New("connection refused")
	spool := &memorySpool{}
	spool.docs = []Document{doc(1000), doc(1001)} // left by an earlier process
	bubble(t, Config{BufferDocs: 10, Spool: spool, BatchDocs: 7}, d, func(t *testing.T, r *Queue) {
		for i := range 40 {
			put(t, r, doc(i)) // never blocks
			time.Sleep(time.Second)
		}
		check.AtLeast(t, spool.Documents(), 30, "documents in the spool")
		d.set(func() { d.down = nil })
		time.Sleep(20 * time.Second)
		flush(t, r)
		check.Equal(t, d.count(), 42)
		check.Equal(t, spool.Documents(), 0)
		put(t, r, doc(50))
		flush(t, r)
		check.Equal(t, spool.Documents(), 0)
		check.Equal(t, d.count(), 43)
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
			r := newQueue(cfg.withDefaults(), "store", d.write, slog.New(slog.DiscardHandler))
			var wg sync.WaitGroup
			wg.Go(func() { r.run(ctx) })
			put(t, r, doc(0), doc(1))
			synctest.Wait()
			r.shut()
			stop()
			wg.Wait()
			err := r.close()
			if spool == nil {
				check.That(t, err != nil, "lost records without an error")
			} else {
				check.NoError(t, err)
				check.Equal(t, spool.Documents(), 2)
			}
			check.ErrorIs(t, r.Put(ctx, doc(3)), ErrClosed, "put after close")
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
		check.ErrorIs(t, r.Flush(ctx), context.DeadlineExceeded)
	})
}

// TestStored: Stored is called exactly once for every document, before a waiting Flush
// returns.
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
				check.That(t, (batch == 0) == (err != nil), "document %d: one of a batch of %d, %v", i, batch, err)
			}
			put(t, r, doc)
		}
		others(t, r, 1000, 400)
		flush(t, r)
		mu.Lock()
		defer mu.Unlock()
		for i := range 8 {
			ends := settled[doc(i).ID]
			refused := i == 3 || i == 5
			check.Equal(check.Must(t), len(ends), 1, "document %d", i)
			check.That(t, (ends[0] != nil) == refused, "document %d: %v", i, ends)
		}
	})
}

// TestStoredHasTheBatch: Stored gets the number of documents in the request, so the
// number of documents with the same value is a multiple of that value.
func TestStoredHasTheBatch(t *testing.T) {
	d := newDatabase()
	d.busy = time.Second // all are enqueued before the first request ends
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
			check.AtLeast(t, batch, 1)
			check.AtMost(t, batch, 5)
			check.Equal(t, n%batch, 0)
			all += n
		}
		check.Equal(t, all, 12)
		check.That(t, counts[5] != 0, "counts of %v, want 12 and full batches", counts)
	})
}
