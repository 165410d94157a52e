package records

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// suspect is a document that the store refused, or whose requests fail although the
// store answers. It is retried from time to time. Only the outcome of other documents
// shows whether the document is at fault, because a store may refuse everything for a
// while.
type suspect struct {
	doc   Document
	err   error // the last error
	since time.Time
	alone bool // requests with it fail, so it is sent alone
	// beside means that the store accepted another document in the answer that refused
	// this one, or in the batch that failed because of it.
	beside bool
	// first and last are the numbers of documents that the store had accepted at the
	// first and the last failure of this document. strikes counts the failures between
	// which it accepted others.
	first, last uint64
	strikes     int
}

// A refused document is given up after this number of strikes: strikesBeside if the
// store accepted another document in the same answer or batch, otherwise strikesAlone,
// because the store might alternate between accepting and refusing everything.
const (
	strikesBeside = 3
	strikesAlone  = 10
)

// maxRefused limits the refused documents in memory if there is a spool and the store
// refuses every document.
const maxRefused = 500

// setAside makes suspects of documents that an answer refused. beside reports whether
// the same answer accepted others. Suspects count as unwritten.
func (r *Queue) setAside(docs []Document, why []error, beside bool) {
	if r.overflows() && r.spoolRefused(docs) {
		return
	}
	taken := r.accepted()
	r.mu.Lock()
	for i, doc := range docs {
		s := &suspect{doc: doc, since: time.Now(), first: taken, last: taken}
		s.strike(why[i], taken, beside)
		r.suspects = append(r.suspects, s)
	}
	r.mu.Unlock()
	signal(r.doubt)
}

// overflows reports whether refused documents go to the spool.
func (r *Queue) overflows() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cfg.Spool != nil && !r.refusals.OK() && len(r.suspects) >= maxRefused
}

// spoolRefused moves documents to the spool. It returns false if the spool fails.
func (r *Queue) spoolRefused(docs []Document) bool {
	fresh := slices.DeleteFunc(slices.Clone(docs), func(d Document) bool { return d.spooled })
	if len(fresh) > 0 && r.spool(fresh) != nil {
		return false
	}
	r.disown(docs)
	return true
}

// isolate makes a suspect of a document whose requests fail. before is the number of
// documents that the store had accepted before the batch.
func (r *Queue) isolate(doc Document, err error, before uint64) {
	s := &suspect{doc: doc, since: time.Now(), alone: true, first: before, last: before}
	taken := r.accepted()
	r.mu.Lock()
	s.strike(err, taken, taken > before)
	r.suspects = append(r.suspects, s)
	r.mu.Unlock()
	signal(r.doubt)
}

// strike records a failure of a suspect. beside reports whether the store accepted
// another document in the same answer or batch. The caller must hold mu.
func (s *suspect) strike(err error, taken uint64, beside bool) {
	s.err = err
	s.beside = s.beside || beside
	if beside || taken > s.last {
		s.strikes++
	}
	s.last = taken
}

// guilty reports whether to give up a suspect, because others were written meanwhile.
// The caller must hold mu.
func (r *Queue) guilty(s *suspect) bool {
	switch {
	case !refused(s.err):
		return time.Since(s.since) >= r.cfg.DeadAfter && s.last > s.first
	case s.beside:
		return s.strikes >= strikesBeside
	}
	return s.strikes >= strikesAlone
}

// clear retries all suspects, with pauses, until ctx ends. It also makes sure that
// spooled documents do not wait for the next record after the database is back.
func (r *Queue) clear(ctx context.Context) {
	for {
		select {
		case <-r.doubt:
		case <-ctx.Done():
			return
		}
		backoff := retry.Backoff{Min: r.cfg.BackoffMin, Max: r.cfg.BackoffMax}
		for r.unsettled() {
			if !backoff.Wait(ctx) {
				return
			}
			r.park()
			r.retrySuspects(ctx)
			r.removeKept()
			if r.unasked() {
				_, _ = r.request(ctx, nil) // records the state of the database
			}
			r.drainSpool(ctx)
			r.clearConditions()
		}
	}
}

// unsettled reports whether documents are waiting on which no sender works.
func (r *Queue) unsettled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.suspects) > 0 || r.spooled || !r.spoolCondition.OK() || !r.refusals.OK()
}

// clearConditions ends conditions that no document can end: the trouble of a spool that
// is no longer needed, and the refusals of a store without refused documents.
func (r *Queue) clearConditions() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spooled || r.draining {
		return
	}
	if len(r.suspects) == 0 {
		r.refusals.Succeeded(r.log, "no activation record is left that "+r.name+" refuses")
	}
	if r.condition.OK() && r.fits(0) {
		r.spoolCondition.Succeeded(r.log, "activation records need no spool any more")
	}
}

// unasked reports whether the database was unreachable and no sender has a document
// whose request would show that it is back, because all documents are in the spool.
func (r *Queue) unasked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spooled && r.unwritten == 0 && !r.condition.OK()
}

// park moves suspects to the spool while a flush waits for them.
func (r *Queue) park() {
	r.mu.Lock()
	if r.cfg.Spool == nil || r.flushing == 0 || len(r.suspects) == 0 {
		r.mu.Unlock()
		return
	}
	parked := slices.Clone(r.suspects)
	r.parked = true // until the flush ends: the spool is not drained
	r.mu.Unlock()
	docs := make([]Document, len(parked))
	for i, s := range parked {
		docs[i] = s.doc
	}
	if !r.spoolRefused(docs) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspects = slices.DeleteFunc(r.suspects, func(s *suspect) bool { return slices.Contains(parked, s) })
	r.sent = nil // they stay in the spool
	r.spooled = true
}

// retrySuspects retries all suspects: those whose requests fail are sent alone, the
// others together. While the store refuses every document, it sends only one request of
// the latter.
func (r *Queue) retrySuspects(ctx context.Context) {
	alone, together := r.sortSuspects()
	for _, s := range alone {
		r.try(ctx, s)
	}
	for len(together) > 0 && ctx.Err() == nil {
		n := r.fitsRequest(together)
		if !r.tryTogether(ctx, together[:n]) {
			return
		}
		together = together[n:]
	}
}

func (r *Queue) sortSuspects() (alone, together []*suspect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.suspects {
		if s.alone {
			alone = append(alone, s)
		} else {
			together = append(together, s)
		}
	}
	return alone, together
}

// fitsRequest returns how many of the first suspects fit into one request.
func (r *Queue) fitsRequest(suspects []*suspect) (n int) {
	bytes := 0
	for n < len(suspects) && n < r.cfg.BatchDocs {
		if bytes += len(suspects[n].doc.Body); n > 0 && bytes > r.cfg.BatchBytes {
			break
		}
		n++
	}
	return n
}

// try sends one suspect alone. Its failure does not count as the database's, which is
// probed with an empty request.
func (r *Queue) try(ctx context.Context, s *suspect) {
	results, err := r.send(ctx, []Document{s.doc})
	if err != nil || unavailable(results) != nil {
		_, _ = r.request(ctx, nil)
	}
	switch {
	case err == nil:
		r.noteAnswers(results)
		r.answered([]*suspect{s}, results)
	case errors.Is(err, ErrTooLarge) && r.blames(ctx, err) && r.shorten(&s.doc):
		r.setError(s, err)
	case ctx.Err() == nil && (!refused(err) || r.blames(ctx, err)):
		r.failedAgain(s, err, false)
	}
}

// tryTogether sends suspects in one request. It reports whether more suspects should be
// tried.
func (r *Queue) tryTogether(ctx context.Context, suspects []*suspect) bool {
	docs := make([]Document, len(suspects))
	for i, s := range suspects {
		docs[i] = s.doc
	}
	results, err := r.request(ctx, docs)
	if err != nil {
		if ctx.Err() == nil && r.alive(ctx) { // a suspect makes the request fail
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, s := range suspects {
				s.alone = true
			}
		}
		return false
	}
	r.noteAnswers(results)
	r.answered(suspects, results)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusals.OK()
}

// answered processes the store's answers to suspects.
func (r *Queue) answered(suspects []*suspect, results []error) {
	beside := slices.Contains(results, nil)
	for i, s := range suspects {
		err := results[i]
		switch {
		case err == nil || errors.Is(err, ErrExists):
			r.acquit(s)
			r.written(s.doc, len(suspects), err != nil)
		case errors.Is(err, ErrUnavailable), errors.Is(err, ErrTooLarge) && r.shorten(&s.doc):
			r.setError(s, err)
		default:
			r.failedAgain(s, err, beside)
		}
	}
}

func (r *Queue) setError(s *suspect, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.err = err
}

// failedAgain records another failure of a suspect, and rejects it if the document is at
// fault. A retried suspect moves to the end of the list.
func (r *Queue) failedAgain(s *suspect, err error, beside bool) {
	taken := r.accepted()
	r.mu.Lock()
	s.strike(err, taken, beside)
	guilty := r.guilty(s)
	if at := slices.Index(r.suspects, s); at >= 0 {
		r.suspects = append(slices.Delete(r.suspects, at, at+1), s)
	}
	r.mu.Unlock()
	if guilty {
		r.reject(s)
	}
}

func (r *Queue) acquit(s *suspect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspects = slices.DeleteFunc(r.suspects, func(have *suspect) bool { return have == s })
}
