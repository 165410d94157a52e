package records

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// suspect is a document that the store refused, or that makes the requests fail that it
// is in, while the store is there. It is tried now and then. Whether it is the document's
// fault shows only in what becomes of others: a store may refuse everything for a while.
type suspect struct {
	doc   Document
	err   error // the last one
	since time.Time
	alone bool // requests with it fail, so it is tried alone
	// beside means that the store took another document in the answer that refused this
	// one, or in the batch that it made fail.
	beside bool
	// first and last are how many documents the store had taken when the document failed
	// first and last. strikes counts the failures between which it took others.
	first, last uint64
	strikes     int
}

// A refused document is given up after so many strikes. Without another document in the
// same answer or batch, the store might take all and refuse all in turns.
const (
	strikesBeside = 3
	strikesAlone  = 10
)

// maxRefused bounds how many refused documents are in memory where there is a spool, while
// the store refuses every document.
const maxRefused = 500

// setAside makes suspects of documents that an answer refused; beside: it took others.
// They count as unwritten.
func (r *Queue) setAside(docs []Document, why []error, beside bool) {
	if len(docs) == 0 {
		return
	}
	if r.overflows() && r.spoolRefused(docs) {
		return
	}
	taken := r.taken()
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

// spoolRefused leaves documents to the spool. It returns false if the spool cannot take
// them.
func (r *Queue) spoolRefused(docs []Document) bool {
	fresh := slices.DeleteFunc(slices.Clone(docs), func(d Document) bool { return d.spooled })
	if len(fresh) > 0 && r.spool(fresh) != nil {
		return false
	}
	r.disown(docs)
	return true
}

// isolate makes a suspect of a document that makes the requests fail that it is in. The
// store had taken so many documents before the batch.
func (r *Queue) isolate(doc Document, err error, before uint64) {
	s := &suspect{doc: doc, since: time.Now(), alone: true, first: before, last: before}
	taken := r.taken()
	r.mu.Lock()
	s.strike(err, taken, taken > before)
	r.suspects = append(r.suspects, s)
	r.mu.Unlock()
	signal(r.doubt)
}

// strike records that a suspect failed. beside is whether the store took another document
// in the same answer or batch. The caller holds the lock.
func (s *suspect) strike(err error, taken uint64, beside bool) {
	s.err = err
	s.beside = s.beside || beside
	if beside || taken > s.last {
		s.strikes++
	}
	s.last = taken
}

// guilty reports whether a suspect is given up: others were written all the while. The
// caller holds the lock.
func (r *Queue) guilty(s *suspect) bool {
	switch {
	case !refused(s.err):
		return time.Since(s.since) >= r.cfg.DeadAfter && s.last > s.first
	case s.beside:
		return s.strikes >= strikesBeside
	}
	return s.strikes >= strikesAlone
}

// clear tries suspects until ctx ends, all of them between two pauses, as long
// as there are any, and sees to it that what is spooled does not wait for the
// next record once the database is well.
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
				_, _ = r.request(ctx, nil) // records how the database is
			}
			r.drainSpool(ctx)
			r.clearConditions()
		}
	}
}

// unsettled reports whether documents wait that no sender works on.
func (r *Queue) unsettled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.suspects) > 0 || r.spooled || !r.spoolCondition.OK() || !r.refusals.OK()
}

// clearConditions ends conditions that no document will end: the trouble of a spool that is
// not needed any more, and the refusals of a store where no refused document is left.
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

// unasked reports whether the database was away and no sender has a document
// whose request would find it back: all of them are in the spool.
func (r *Queue) unasked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spooled && r.unwritten == 0 && !r.condition.OK()
}

// park leaves suspects to the spool while a flush waits for them.
func (r *Queue) park() {
	r.mu.Lock()
	if r.cfg.Spool == nil || r.flushing == 0 || len(r.suspects) == 0 {
		r.mu.Unlock()
		return
	}
	parked := slices.Clone(r.suspects)
	r.parked = true // until the flush ends: nothing is drained
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
	r.sent = nil // the spool keeps them
	r.spooled = true
}

// retrySuspects tries all suspects: each one that makes requests fail alone, the others
// together. While the store refuses every document, one request of them suffices.
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

// fitsRequest is how many of the first suspects go into one request.
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

// try sends one suspect alone. Its failure is not the database's, which is
// probed with a request of no documents.
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

// tryTogether sends suspects in one request, and reports whether more of them are worth a
// try.
func (r *Queue) tryTogether(ctx context.Context, suspects []*suspect) bool {
	docs := make([]Document, len(suspects))
	for i, s := range suspects {
		docs[i] = s.doc
	}
	results, err := r.request(ctx, docs)
	if err != nil {
		if ctx.Err() == nil && r.alive(ctx) { // one of them makes the request fail
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

// answered sorts out what the store answered to suspects.
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

// failedAgain records that a suspect failed once more, and rejects it if that is its own
// fault. Those that were tried go to the end of the list.
func (r *Queue) failedAgain(s *suspect, err error, beside bool) {
	taken := r.taken()
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
