package records

import (
	"context"
	"fmt"
	"slices"
)

// spool writes documents to the disk spool.
func (r *Queue) spool(docs []Document) error {
	err := r.cfg.Spool.Append(docs)
	r.mu.Lock()
	if err != nil {
		r.spoolCondition.Failed(r.log, "activation records cannot be spooled", err)
		r.spooled = true // some documents may have been written
		r.mu.Unlock()
		signal(r.doubt)
		return fmt.Errorf("spool %d records: %w", len(docs), err)
	}
	r.spoolCondition.Succeeded(r.log, "activation records are spooled again")
	r.spooled = true
	r.stats.Spooled += uint64(len(docs))
	r.mu.Unlock()
	signal(r.doubt)
	for _, doc := range docs {
		doc.settled(0, nil)
	}
	return nil
}

// drainSpool writes the spooled documents to the database, once it works. One sender
// does this, and the others continue with new documents.
func (r *Queue) drainSpool(ctx context.Context) {
	for r.acquireSpool() {
		drained, more, err := r.drainBatch(ctx)
		r.releaseSpool(more)
		if err != nil {
			r.log.Error("spooled activation records stay where they are", "error", err)
			return
		}
		if ctx.Err() != nil || drained == 0 {
			return
		}
	}
}

// acquireSpool reports whether this sender should drain the spool: the database works,
// the spool may hold documents, and no other sender is draining.
func (r *Queue) acquireSpool() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	probes := len(r.suspects) == 0 // without suspects, only the spool's documents show whether the store accepts any
	if !r.spooled || r.draining || r.parked || r.sent != nil || !r.condition.OK() || !r.refusals.OK() && !probes {
		return false
	}
	r.spooled, r.draining = false, true
	return true
}

func (r *Queue) releaseSpool(more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = false
	r.spooled = r.spooled || more
}

// drainBatch sends the oldest documents of the spool and then removes them. If it is
// interrupted, they are sent again, and the database answers with a conflict, which
// counts as written. If some have become suspects, all stay in the spool until those are
// settled, because only the spool survives the process.
func (r *Queue) drainBatch(ctx context.Context) (drained int, more bool, err error) {
	docs, err := r.cfg.Spool.Peek(r.cfg.BatchDocs, r.cfg.BatchBytes)
	if err != nil {
		return 0, true, fmt.Errorf("read spool: %w", err)
	}
	if len(docs) == 0 {
		return 0, r.cfg.Spool.Documents() > 0, nil // the disk is still writing them
	}
	r.adopt(docs)
	if left := r.deliver(ctx, docs); len(left) > 0 {
		r.disown(left)
		return 0, true, nil
	}
	if r.keepSent(docs) {
		return 0, true, nil
	}
	if err := r.removeSent(len(docs)); err != nil {
		return 0, true, err
	}
	return len(docs), true, nil
}

// removeSent removes documents from the spool that are settled.
func (r *Queue) removeSent(n int) error {
	if err := r.cfg.Spool.Remove(n); err != nil {
		return fmt.Errorf("shorten spool: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announce() // a Put that waits for space may use the spool
	return nil
}

// keepSent remembers the documents in the spool if some are suspects. It reports whether
// the spool must keep them.
func (r *Queue) keepSent(docs []Document) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.suspected(docs) {
		return false
	}
	r.sent = docs
	return true
}

// removeKept removes the kept documents after their suspects are settled.
func (r *Queue) removeKept() {
	r.mu.Lock()
	n := len(r.sent)
	keep := r.suspected(r.sent)
	r.mu.Unlock()
	if n == 0 || keep {
		return
	}
	if err := r.removeSent(n); err != nil {
		r.log.Error("spooled activation records stay where they are", "error", err)
		return // a later call tries again
	}
	r.mu.Lock()
	r.sent = nil
	r.mu.Unlock()
}

// suspected reports whether one of the documents is a suspect. The caller must hold mu.
func (r *Queue) suspected(docs []Document) bool {
	return slices.ContainsFunc(r.suspects, func(s *suspect) bool {
		return slices.ContainsFunc(docs, func(d Document) bool { return d.ID == s.doc.ID })
	})
}

// adopt counts documents of the spool as unwritten while they are being sent.
func (r *Queue) adopt(docs []Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, doc := range docs {
		docs[i].spooled = true
		r.unwritten++
		r.unwrittenBytes += len(doc.Body)
	}
}

// disown undoes adopt for documents that stay in the spool.
func (r *Queue) disown(docs []Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, doc := range docs {
		r.release(doc)
	}
}
