package records

import (
	"context"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// suspect is a document that makes the requests fail that it is in, while the
// database is there. It is tried alone now and then.
type suspect struct {
	doc     Document
	err     error
	since   time.Time
	written uint64 // of the store, when the suspicion began
	tries   int
}

// suspect sets a document aside. It stays among those that are held.
func (r *Queue) suspect(doc Document, err error) {
	r.mu.Lock()
	r.suspects = append(r.suspects, &suspect{doc: doc, err: err, since: time.Now(), written: r.stats.Written})
	r.mu.Unlock()
	r.remind()
}

// remind has clear look at what is unsettled.
func (r *Queue) remind() {
	select {
	case r.doubt <- struct{}{}:
	default:
	}
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
		pace := outage.Pace{Min: r.cfg.BackoffMin, Max: r.cfg.BackoffMax}
		for r.unsettled() {
			if !outage.Wait(ctx, pace.Next()) {
				return
			}
			for _, s := range r.allSuspects() {
				r.try(ctx, s)
			}
			r.removeKept()
			if r.unasked() {
				_, _ = r.request(ctx, nil) // notes by itself how the database is
			}
			r.drainSpool(ctx)
			r.relieve()
		}
	}
}

// unsettled tells whether something waits that no sender works on.
func (r *Queue) unsettled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.suspects) > 0 || r.spooled || !r.spoolCondition.OK()
}

// relieve ends the trouble of a spool that nobody needs any more: it is only
// found well by the next document that goes there, in the next outage.
func (r *Queue) relieve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.condition.OK() && !r.spooled && !r.draining && r.fits(0) {
		r.spoolCondition.Works(r.log, "activation records need no spool any more")
	}
}

// unasked tells whether the database was away and nobody holds a document with
// which he would find out that it is back: all of them are in the spool.
func (r *Queue) unasked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spooled && r.held == 0 && !r.condition.OK()
}

func (r *Queue) allSuspects() []*suspect {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.suspects)
}

// try sends one suspect alone. That it fails says nothing of the database, which
// is asked with a request of nothing.
func (r *Queue) try(ctx context.Context, s *suspect) {
	results, err := r.send(ctx, []Document{s.doc})
	if err != nil || away(results) != nil {
		_, _ = r.request(ctx, nil)
	}
	if err == nil {
		r.acquit(s)
		if again := r.settle([]Document{s.doc}, results, documentTries); len(again) > 0 {
			r.suspect(s.doc, results[0])
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	s.tries++
	r.mu.Lock()
	s.err = err
	// Others were written meanwhile: it is the document, not the database.
	guilty := refused(err) || time.Since(s.since) >= r.cfg.DeadAfter && r.stats.Written > s.written
	r.mu.Unlock()
	if guilty {
		r.acquit(s)
		r.reject(s.doc, err)
	}
}

func (r *Queue) acquit(s *suspect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspects = slices.DeleteFunc(r.suspects, func(have *suspect) bool { return have == s })
}
