package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// keptLogBytes is how much of the logs remains in a record that is too large for the
// database. CouchDB's own limit for a document is 8 MB.
const keptLogBytes = 4 << 20

// deliver sends a batch until each document is written or set aside. It returns the
// remaining documents if ctx ends.
func (r *Queue) deliver(ctx context.Context, batch []Document) (left []Document) {
	before, failures := r.accepted(), 0
	backoff := retry.Backoff{Min: 2 * r.cfg.BackoffMin, Max: r.cfg.BackoffMax}
	for len(batch) > 0 {
		results, err := r.request(ctx, batch)
		switch {
		case err == nil:
			batch = r.settle(batch, results)
		case r.blames(ctx, err):
			return r.halve(ctx, batch, err, before)
		default:
			failures++
			if failures >= batchTries && r.alive(ctx) {
				return r.halve(ctx, batch, err, before)
			}
		}
		if len(batch) > 0 && r.leave(batch) {
			return nil
		}
		if len(batch) > 0 && !backoff.Wait(ctx) {
			return batch
		}
	}
	return nil
}

// leave moves a batch to the spool if a flush is waiting while the database is
// unreachable. It reports whether the spool has the batch.
func (r *Queue) leave(batch []Document) bool {
	r.mu.Lock()
	leave := r.cfg.Spool != nil && r.flushing > 0 && !r.condition.OK()
	r.mu.Unlock()
	if !leave || r.spool(batch) != nil {
		return false
	}
	r.disown(batch)
	return true
}

// batchTries is how often a batch that fails without a refusal is sent before its
// documents are suspected.
const batchTries = 3

// alive reports whether the database accepts an empty batch.
func (r *Queue) alive(ctx context.Context) bool {
	_, err := r.write(ctx, nil)
	return err == nil
}

// blames reports whether the documents are to blame for a failure. If an empty batch is
// refused as well, for example by a misconfigured load balancer, any batch would be.
func (r *Queue) blames(ctx context.Context, err error) bool {
	if !refused(err) {
		return false
	}
	_, none := r.request(ctx, nil)
	return none == nil
}

// halve handles a batch that fails although the database answers. A single bad document
// can cause that, so the batch is halved until the document is alone. It is set aside
// then, so that it delays no other. before is the number of documents that the store had
// accepted before the batch.
func (r *Queue) halve(ctx context.Context, batch []Document, err error, before uint64) (left []Document) {
	if len(batch) == 1 {
		if errors.Is(err, ErrTooLarge) && r.shorten(&batch[0]) {
			return r.deliver(ctx, batch)
		}
		r.isolate(batch[0], err, before)
		return nil
	}
	half := len(batch) / 2
	for _, part := range [][]Document{batch[:half:half], batch[half:]} {
		results, err := r.request(ctx, part)
		switch {
		case err == nil:
			part = r.deliver(ctx, r.settle(part, results))
		case refused(err):
			part = r.halve(ctx, part, err, before)
		case !retry.Sleep(ctx, r.cfg.BackoffMin): // do not burden a struggling database
		case !r.alive(ctx): // the database itself is the problem
			part = r.deliver(ctx, part)
		default:
			part = r.halve(ctx, part, err, before)
		}
		left = append(left, part...)
	}
	return left
}

// request sends a batch, and records in the condition whether the database works.
func (r *Queue) request(ctx context.Context, batch []Document) ([]error, error) {
	results, err := r.send(ctx, batch)
	failed := cmp.Or(err, unavailable(results))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case failed == nil: // the database works
		r.condition.Succeeded(r.log, "activation records are written again")
	case ctx.Err() == nil && (len(batch) == 0 || !refused(err)):
		r.condition.Failed(r.log, "activation records cannot be written", failed)
	}
	return results, err
}

// send sends a batch.
func (r *Queue) send(ctx context.Context, batch []Document) ([]error, error) {
	results, err := r.write(ctx, batch)
	if err == nil && len(results) != len(batch) {
		err = errShortAnswer
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if cmp.Or(err, unavailable(results)) == nil {
		r.stats.Requests++
	} else {
		r.stats.Failures++
	}
	return results, err
}

// unavailable returns the first answer that a document's part of the store is
// unavailable, nil if there is none.
func unavailable(results []error) error {
	for _, err := range results {
		if errors.Is(err, ErrUnavailable) {
			return err
		}
	}
	return nil
}

var errShortAnswer = errors.New("the store answered for a different number of documents")

// refused reports whether a request failed because of its content, so that repeating it
// unchanged is useless.
func refused(err error) bool { return errors.Is(err, ErrRefused) || errors.Is(err, ErrTooLarge) }

// settle processes the answers to a request and returns the documents to send again.
// Documents that the store refused are set aside.
func (r *Queue) settle(batch []Document, results []error) (again []Document) {
	r.noteAnswers(results)
	var aside []Document
	var why []error
	for i, doc := range batch {
		err := results[i]
		switch {
		case err == nil || errors.Is(err, ErrExists):
			r.written(doc, len(batch), err != nil)
		case errors.Is(err, ErrUnavailable), errors.Is(err, ErrTooLarge) && r.shorten(&doc):
			again = append(again, doc)
		default:
			aside, why = append(aside, doc), append(why, err)
		}
	}
	if len(aside) > 0 {
		r.setAside(aside, why, slices.Contains(results, nil))
	}
	return again
}

// refusalsAfter is how long a store may refuse documents without accepting one before it
// counts as refusing all.
const refusalsAfter = 10 * time.Second

// noteAnswers records whether the store accepts any document at all.
func (r *Queue) noteAnswers(results []error) {
	var refusal error
	for _, err := range results {
		if err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrTooLarge) {
			refusal = err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case slices.Contains(results, nil):
		r.lastTaken = time.Now()
		r.refusals.Succeeded(r.log, r.name+" takes activation records again")
	case refusal != nil && time.Since(r.lastTaken) >= refusalsAfter:
		r.refusals.Failed(r.log, r.name+" refuses every activation record, they are kept", fmt.Errorf("every record is refused: %w", refusal))
	}
}

// accepted returns the number of documents that the store has accepted. A document that it
// already had does not count, because it does not show that the store accepts others.
func (r *Queue) accepted() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats.Written - r.stats.Conflicts
}

// written counts a document as stored. A conflict means that the database already has
// the record, because ids are never used twice.
func (r *Queue) written(doc Document, batch int, conflict bool) {
	doc.settled(batch, nil) // before Flush can return
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Written++
	if conflict {
		r.stats.Conflicts++
	}
	r.release(doc)
}

// shorten removes log lines from a document that is too large. It returns false if there
// are none left.
func (r *Queue) shorten(doc *Document) bool {
	keep := keptLogBytes
	if len(doc.Body) <= 2*keptLogBytes {
		keep = 0
	}
	body, ok := activation.ShortenLogs(doc.Body, keep)
	if ok {
		r.resize(len(body) - len(doc.Body))
		doc.Body = body
	}
	return ok
}

func (r *Queue) resize(delta int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unwrittenBytes += delta
}

// reject gives up a suspect and writes it to the dead letters, if configured. If they
// fail, the document stays a suspect.
func (r *Queue) reject(s *suspect) {
	doc, err := s.doc, s.err
	if r.cfg.DeadLetters != nil {
		if failed := r.cfg.DeadLetters.Add(doc, err); failed != nil {
			r.log.Error("an activation record that "+r.name+" does not take cannot be put aside", "document", doc.ID, "error", failed)
			return
		}
	}
	r.acquit(s)
	r.log.Error(r.name+" does not take an activation record", "document", doc.ID, "error", err, "kept", r.cfg.DeadLetters != nil)
	if r.cfg.Rejected != nil {
		r.cfg.Rejected(doc.ID, err)
	}
	doc.settled(0, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Rejected++
	if r.cfg.DeadLetters != nil {
		r.stats.DeadLettered++
	}
	r.release(doc)
}
