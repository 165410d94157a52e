package records

import (
	"cmp"
	"context"
	"errors"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// documentTries is how often a single document that the database refuses for
// a reason of its own is sent before it is given up.
const documentTries = 3

// keptLogBytes is what stays of the logs of a record that the database finds
// too large; CouchDB's own limit for a document is 8 MB.
const keptLogBytes = 4 << 20

// deliver sends a batch until each of its documents is written or rejected. It
// returns what is left when ctx ends.
func (r *Queue) deliver(ctx context.Context, batch []Document) (left []Document) {
	answers, failures := 0, 0
	backoff := retry.Backoff{Min: 2 * r.cfg.BackoffMin, Max: r.cfg.BackoffMax}
	for len(batch) > 0 {
		results, err := r.request(ctx, batch)
		switch {
		case err == nil:
			answers++
			batch = r.settle(batch, results, answers)
		case r.blames(ctx, err):
			return r.halve(ctx, batch, err)
		default:
			failures++
			if failures >= batchTries && r.alive(ctx) {
				return r.halve(ctx, batch, err)
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

// leave hands a batch to the spool if a flush waits for its documents to be safe
// while the database is away. It reports whether the spool has the batch.
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

// batchTries is how often a batch that fails for no reason of its own is sent
// before its documents are suspected.
const batchTries = 3

// alive reports whether the database takes writes at all: a batch of nothing.
func (r *Queue) alive(ctx context.Context) bool {
	_, err := r.write(ctx, nil)
	return err == nil
}

// blames reports whether a failure is of what was sent. What refuses a batch of nothing,
// too, as a load balancer may that was set up wrong, would refuse anything.
func (r *Queue) blames(ctx context.Context, err error) bool {
	if !refused(err) {
		return false
	}
	_, none := r.request(ctx, nil)
	return none == nil
}

// halve deals with a batch that fails though the database is there: one bad document
// is enough for that, so it is halved until that one is alone. What makes a request
// fail without being refused is set aside, so that it delays no other.
func (r *Queue) halve(ctx context.Context, batch []Document, err error) (left []Document) {
	switch {
	case len(batch) == 1 && r.blames(ctx, err):
		return r.deliver(ctx, r.fix(batch[0], err))
	case len(batch) == 1:
		r.suspect(batch[0], err)
		return nil
	}
	half := len(batch) / 2
	for _, part := range [][]Document{batch[:half:half], batch[half:]} {
		results, err := r.request(ctx, part)
		switch {
		case err == nil:
			part = r.deliver(ctx, r.settle(part, results, 1))
		case refused(err):
			part = r.halve(ctx, part, err)
		case !retry.Sleep(ctx, r.cfg.BackoffMin): // a sick database is not hammered
		case !r.alive(ctx): // it is the database after all
			part = r.deliver(ctx, part)
		default:
			part = r.halve(ctx, part, err)
		}
		left = append(left, part...)
	}
	return left
}

// request sends a batch and records by the answer whether the database is there.
func (r *Queue) request(ctx context.Context, batch []Document) ([]error, error) {
	results, err := r.send(ctx, batch)
	failed := cmp.Or(err, unavailable(results))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case failed == nil: // the database is there and answers
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

// unavailable is the first answer that a document's part of the store is
// unavailable.
func unavailable(results []error) error {
	for _, err := range results {
		if errors.Is(err, ErrUnavailable) {
			return err
		}
	}
	return nil
}

var errShortAnswer = errors.New("the store answered for another number of documents")

// refused reports whether a request failed for what is in it: to repeat it as
// it is would be no use.
func refused(err error) bool { return errors.Is(err, ErrRefused) || errors.Is(err, ErrTooLarge) }

// settle sorts out a request that succeeded and returns the documents that are
// to be sent again. tries is how many requests with them succeeded.
func (r *Queue) settle(batch []Document, results []error, tries int) []Document {
	var again []Document
	for i, doc := range batch {
		err := results[i]
		switch {
		case err == nil || errors.Is(err, ErrExists):
			r.written(doc, len(batch), err != nil)
		case refused(err):
			again = append(again, r.fix(doc, err)...)
		case errors.Is(err, ErrUnavailable):
			again = append(again, doc)
		case tries >= documentTries:
			r.reject(doc, err)
		default:
			again = append(again, doc)
		}
	}
	return again
}

// written counts a document as stored. A conflict means that the database has
// the record already: ids are never used twice.
func (r *Queue) written(doc Document, batch int, conflict bool) {
	doc.settled(batch, nil) // before Flush can see that nothing is left
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Written++
	if conflict {
		r.stats.Conflicts++
	}
	r.release(doc)
}

// fix returns a document that the database refused on its own in a form that
// it may take, or rejects it.
func (r *Queue) fix(doc Document, err error) []Document {
	if errors.Is(err, ErrTooLarge) {
		keep := keptLogBytes
		if len(doc.Body) <= 2*keptLogBytes {
			keep = 0
		}
		if body, ok := activation.ShortenLogs(doc.Body, keep); ok {
			r.resize(len(body) - len(doc.Body))
			doc.Body = body
			return []Document{doc}
		}
	}
	r.reject(doc, err)
	return nil
}

func (r *Queue) resize(delta int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unwrittenBytes += delta
}

// reject gives a document up that the database will never take: it goes to the
// dead letters where there are any. While they take none, it is tried again.
func (r *Queue) reject(doc Document, err error) {
	if r.cfg.DeadLetters != nil {
		if failed := r.cfg.DeadLetters.Add(doc, err); failed != nil {
			r.log.Error("an activation record that "+r.name+" does not take cannot be put aside", "document", doc.ID, "error", failed)
			r.suspect(doc, err)
			return
		}
	}
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
