package couchdb

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-kivik/kivik/v4"
	"github.com/go-kivik/kivik/v4/couchdb/chttp"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
)

// bulkDocs sends documents to the database of records. The body is what the
// original sends: every document as it stands, even if there is but one. It is
// built here because the library would parse each document again, and send it
// through a goroutine of its own.
func bulkDocs(v rawClient, steps steps) records.Write {
	return func(ctx context.Context, docs []records.Document) ([]error, error) {
		if len(docs) == 0 {
			return nil, v.cfg.explain(v.write(ctx), v.cfg.Activations)
		}
		ended := steps.begin("database_saveDocumentBulk", len(docs))
		results, err := v.post(ctx, docs)
		ended(err)
		if err != nil {
			return nil, v.cfg.explain(classify(err), v.cfg.Activations)
		}
		return results, nil
	}
}

// post sends one batch and gives the answer to each document.
func (v rawClient) post(ctx context.Context, docs []records.Document) ([]error, error) {
	res, err := v.send(ctx, http.MethodPost, v.bulkPath(), bulkBody(docs)...) //nolint:bodyclose // each way below does
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusExpectationFailed {
		chttp.CloseBody(res.Body)
		return nil, fmt.Errorf("status %d: one or more documents were rejected", res.StatusCode)
	}
	if err := chttp.ResponseError(res); err != nil {
		return nil, err
	}
	var answers []struct{ Error, Reason string }
	if err := chttp.DecodeJSON(res, &answers); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	results := make([]error, len(answers))
	for i, a := range answers {
		results[i] = answerError(a.Error, a.Reason)
	}
	return results, nil
}

// bulkBody returns the parts of the request's body. They are not joined: a document
// may have megabytes of logs.
func bulkBody(docs []records.Document) [][]byte {
	const head, comma, tail = `{"docs":[`, `,`, `]}`
	parts := make([][]byte, 0, 2*len(docs)+1)
	separator := []byte(head)
	for _, d := range docs {
		parts = append(parts, separator, d.Body)
		separator = []byte(comma)
	}
	return append(parts, []byte(tail))
}

// classify gives the failure of a request its meaning for the documents in it.
func classify(err error) error {
	switch kivik.HTTPStatus(err) {
	case http.StatusBadRequest:
		return records.Classify(err, records.ErrRefused)
	case http.StatusRequestEntityTooLarge:
		return records.Classify(err, records.ErrTooLarge)
	}
	return err
}

// answerError is what the answer to one document means; nil: it is written.
func answerError(word, reason string) error {
	if word == "" {
		return nil
	}
	err := fmt.Errorf("%s: %s", word, reason)
	switch word {
	case "conflict":
		return records.Classify(err, records.ErrExists)
	case "forbidden", "unauthorized": // by a design document's validate_doc_update
		return records.Classify(err, records.ErrRefused)
	}
	return err // such as timeout and unknown_error
}
