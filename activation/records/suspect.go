package records

import (
	"context"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// suspect is a document that makes the requests fail that it is in, while the
// database is there. It is tried alone now and then.
type suspect struct {
	doc     Document
	err     error
	since   time.Time
	written uint64 // of the store, when the suspicion began
}

// suspect sets a document aside. It counts as unwritten.
func (r *Queue) suspect(doc Document, err error) {
	r.mu.Lock()
	r.suspects = append(r.suspects, &suspect{doc: doc, err: err, since: time.Now(), written: r.stats.Written})
	r.mu.Unlock()
	signal(r.doubt)
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
			for _, s := range r.allSuspects() {
				r.try(ctx, s)
			}
			r.removeKept()
			if r.unasked() {
				_, _ = r.request(ctx, nil) // records how the database is
			}
			r.drainSpool(ctx)
			r.clearSpoolCondition()
		}
	}
}

// unsettled reports whether documents wait that no sender works on.
func (r *Queue) unsettled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.suspects) > 0 || r.spooled || !r.spoolCondition.OK()
}

// clearSpoolCondition ends the trouble of a spool that is not needed any more: only
// the next document that goes there, when the database fails again, would.
func (r *Queue) clearSpoolCondition() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.condition.OK() && !r.spooled && !r.draining && r.fits(0) {
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

func (r *Queue) allSuspects() []*suspect {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.suspects)
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
		r.acquit(s)
		r.suspectAll(r.settle([]Document{s.doc}, results, documentTries), results[0])
	case r.blames(ctx, err):
		r.acquit(s)
		r.suspectAll(r.fix(s.doc, err), err)
	case ctx.Err() == nil && r.isGuilty(s, err):
		r.acquit(s)
		r.reject(s.doc, err)
	}
}

func (r *Queue) suspectAll(docs []Document, err error) {
	for _, doc := range docs {
		r.suspect(doc, err)
	}
}

// isGuilty reports whether others were written all the while that a suspect failed: it
// is the document, not the database.
func (r *Queue) isGuilty(s *suspect, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.err = err
	return time.Since(s.since) >= r.cfg.DeadAfter && r.stats.Written > s.written
}

func (r *Queue) acquit(s *suspect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspects = slices.DeleteFunc(r.suspects, func(have *suspect) bool { return have == s })
}
