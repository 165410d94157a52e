package couchbase

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/couchbase/gocb/v2"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
)

// write inserts documents side by side. Each has an answer of its own, since
// each may lie on another node.
func (s *Store) write(ctx context.Context, docs []records.Document) ([]error, error) {
	if len(docs) == 0 {
		return nil, s.Probe(ctx)
	}
	inserts := make([]*gocb.InsertOp, len(docs))
	ops := make([]gocb.BulkOp, len(docs))
	for i, doc := range docs {
		inserts[i] = &gocb.InsertOp{ID: doc.ID, Value: doc.Body}
		ops[i] = inserts[i]
	}
	// The library's bulk operation cannot be cancelled; it ends by its timeout.
	done := make(chan error, 1)
	begun := &beginning{Transcoder: gocb.NewRawJSONTranscoder(), seen: make(chan struct{})}
	s.asks.Go(func() {
		done <- s.collection.Do(ops, &gocb.BulkOpOptions{Timeout: operationTime, Transcoder: begun})
	})
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		select { // the library's client may not be closed before
		case <-begun.seen:
		case <-done: //nolint:errcheck // ctx has ended, which is the answer
		}
		return nil, ctx.Err()
	}
	results := make([]error, len(docs))
	for i, op := range inserts {
		results[i] = meaning(op.Err)
		if named := about(op.Err); named != "" {
			results[i] = fmt.Errorf("%w%s", results[i], named)
		}
	}
	return results, nil
}

// beginning reports that the library has counted an operation: the library encodes the
// document after that. Close waits for the counted operations, and an operation that
// was counted during Close would race with it.
type beginning struct {
	gocb.Transcoder
	once sync.Once
	seen chan struct{}
}

// Encode is called by the library.
func (b *beginning) Encode(v any) ([]byte, uint32, error) {
	b.once.Do(func() { close(b.seen) })
	return b.Transcoder.Encode(v)
}

// meaning classifies the answer to one document. Only errors that are known to concern
// the document are permanent. All others are temporary, for example a node that is down
// or a change by an operator; the library has already retried where it can.
func meaning(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gocb.ErrDocumentExists), errors.Is(err, gocb.ErrDocumentLocked):
		return records.Classify(err, records.ErrExists)
	case errors.Is(err, gocb.ErrValueTooLarge):
		return records.Classify(err, records.ErrTooLarge)
	case errors.Is(err, gocb.ErrInvalidArgument), errors.Is(err, gocb.ErrEncodingFailure):
		return records.Classify(err, records.ErrRefused)
	}
	return records.Classify(err, records.ErrUnavailable)
}
