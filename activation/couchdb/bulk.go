package couchdb

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-kivik/kivik/v4"
	"github.com/go-kivik/kivik/v4/couchdb/chttp"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
)

// bulkDocs returns a Write that sends documents to the database of records. The body
// equals OpenWhisk's: every document unchanged, in a batch even if there is only one.
// The body is built here because the library would parse each document again and send it
// through an extra goroutine.
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

// post sends one batch and returns the answer for each document.
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

// bulkBody returns the parts of the request's body. They are not joined, because a
// document may contain megabytes of logs.
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

// classify adds the meaning for the documents to the error of a request.
func classify(err error) error {
	switch kivik.HTTPStatus(err) {
	case http.StatusBadRequest:
		return records.Classify(err, records.ErrRefused)
	case http.StatusRequestEntityTooLarge:
		return records.Classify(err, records.ErrTooLarge)
	}
	return err
}

// answerError converts the answer for one document into an error, nil if the document is
// written.
func answerError(word, reason string) error {
	if word == "" {
		return nil
	}
	err := fmt.Errorf("%s: %s", word, reason)
	switch word {
	case "conflict":
		return records.Classify(err, records.ErrExists)
	case "forbidden", "unauthorized": // by the validate_doc_update of a design document
		return records.Classify(err, records.ErrRefused)
	}
	return err // for example timeout or unknown_error
}
