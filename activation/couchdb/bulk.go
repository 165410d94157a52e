package couchdb

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-kivik/kivik/v4"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/activation/steps"
)

// bulkDocs sends documents to a database. The body is what the original
// sends: every document as it stands, even if there is but one.
// none asks with a batch of nothing, which the library does not send.
func bulkDocs(db *kivik.DB, listener steps.Listener, none func(context.Context) error) records.Write {
	return func(ctx context.Context, docs []records.Document) ([]error, error) {
		if len(docs) == 0 {
			return nil, none(ctx)
		}
		bodies := make([]any, len(docs))
		for i, d := range docs {
			bodies[i] = raw(d.Body)
		}
		ended := steps.Begin(ctx, listener, saving(db.Name(), len(docs)))
		answers, err := db.BulkDocs(ctx, bodies)
		ended(fmt.Sprintf("'%s' completed %d documents", db.Name(), len(docs)), err)
		if err != nil {
			return nil, mark(err)
		}
		results := make([]error, len(answers))
		for i, a := range answers {
			results[i] = markDocument(a.Error)
		}
		return results, nil
	}
}

// raw is JSON that the library must leave alone: it would turn numbers into
// floats.
type raw []byte

// MarshalJSON returns the text.
func (r raw) MarshalJSON() ([]byte, error) { return r, nil }

// mark tells what the failure of a request means for the documents in it.
func mark(err error) error {
	switch kivik.HTTPStatus(err) {
	case http.StatusBadRequest:
		return records.Mark(err, records.ErrRefused)
	case http.StatusRequestEntityTooLarge:
		return records.Mark(err, records.ErrTooLarge)
	}
	return err
}

// markDocument tells what the answer to one document means.
func markDocument(err error) error {
	if kivik.HTTPStatus(err) == http.StatusConflict {
		return records.Mark(err, records.ErrHeld)
	}
	return err
}
