package elasticsearch

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/elastic/go-elasticsearch/v7/esapi"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
)

// documentType is the type of a document, which servers before version 7 require.
const documentType = "_doc"

// action is the line before a document: it is to be created, and not to replace one.
type action struct {
	Create target `json:"create"`
}

type target struct {
	Index string `json:"_index"`
	Type  string `json:"_type,omitempty"`
	ID    string `json:"_id"`
}

// write indexes documents in one request. Existing documents are not changed. Without
// documents it reports whether a server accepts writes.
func (s *Store) write(ctx context.Context, docs []records.Document) ([]error, error) {
	if len(docs) == 0 {
		return nil, s.sendEmptyBatch(ctx)
	}
	typed, err := s.needsType(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]error, len(docs))
	var body bytes.Buffer
	var sent []int
	for i, doc := range docs {
		text, err := source(doc.Body)
		if err != nil {
			results[i] = records.Classify(err, records.ErrRefused)
			continue
		}
		head := action{target{Index: s.index.Index(namespace(doc.ID)), ID: doc.ID}}
		if typed {
			head.Create.Type = documentType
		}
		body.Write(encode(head))
		body.WriteByte('\n')
		body.Write(text)
		body.WriteByte('\n')
		sent = append(sent, i)
	}
	if len(sent) == 0 {
		return results, nil
	}
	answers, err := s.bulk(ctx, &body, len(sent))
	if err != nil {
		return nil, err
	}
	for i, at := range sent {
		results[at] = answers[i].meaning()
	}
	return results, nil
}

// sendEmptyBatch checks the server with a batch without documents. It returns nil if the
// server's only complaint is the empty batch.
func (s *Store) sendEmptyBatch(ctx context.Context) error {
	_, err := s.bulk(ctx, strings.NewReader("\n"), 0)
	if errors.Is(err, records.ErrRefused) {
		return nil
	}
	return err
}

// The limits of an answer: some hundred bytes per document, and the reason of each
// failure.
const (
	mostAnswer    = 64 << 10
	mostPerRecord = 8 << 10
)

// asked are the fields that an answer is to have.
var asked = []string{"items.*.status", "items.*.error.type", "items.*.error.reason"}

// bulk sends a body of so many documents, and returns an answer for each.
func (s *Store) bulk(ctx context.Context, body io.Reader, n int) ([]result, error) {
	res, err := esapi.BulkRequest{Body: body, FilterPath: asked}.Do(ctx, s.client)
	if err != nil {
		return nil, fmt.Errorf("write to Elasticsearch: %w%s", err, settings(err))
	}
	defer res.Body.Close()
	most := mostAnswer + n*mostPerRecord
	answer, err := io.ReadAll(io.LimitReader(res.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read Elasticsearch's answer: %w", err)
	case len(answer) > most:
		return nil, fmt.Errorf("read Elasticsearch's answer: more than %d bytes for %d records", most, n)
	}
	if err := refusal(res.StatusCode, answer); err != nil {
		return nil, err
	}
	var read struct {
		Answers []map[string]result `json:"items"`
	}
	if err := json.Unmarshal(answer, &read); err != nil {
		return nil, fmt.Errorf("read Elasticsearch's answer: %w", err)
	}
	if len(read.Answers) != n {
		return nil, fmt.Errorf("read Elasticsearch's answer: it is about %d records, sent were %d", len(read.Answers), n)
	}
	answers := make([]result, n)
	for i, it := range read.Answers {
		answers[i] = it["create"]
	}
	return answers, nil
}

// result is the answer to one document.
type result struct {
	Status int
	Error  *failure
}

type failure struct{ Type, Reason string }

// meaning classifies the answer to one document. Only an error that concerns the
// document itself is permanent. A full disk, a closed index, a missing permission or
// too many writes at once are temporary.
func (r result) meaning() error {
	if r.Status == http.StatusOK || r.Status == http.StatusCreated {
		return nil
	}
	err := errors.New(words(r.Status, r.Error))
	switch r.Status {
	case http.StatusConflict:
		return records.Classify(err, records.ErrExists)
	case http.StatusBadRequest:
		return records.Classify(err, records.ErrRefused)
	case http.StatusRequestEntityTooLarge:
		return records.Classify(err, records.ErrTooLarge)
	}
	return records.Classify(err, records.ErrUnavailable)
}

// refusal classifies the failure of a whole request.
func refusal(status int, body []byte) error {
	if status >= 200 && status < 300 {
		return nil
	}
	var read struct{ Error json.RawMessage }
	var f *failure
	if json.Unmarshal(body, &read) == nil {
		_ = json.Unmarshal(read.Error, &f) // or it is a text, and the status suffices
	}
	err := errors.New(words(status, f))
	switch status {
	case http.StatusUnauthorized:
		return fmt.Errorf("user or password not accepted (%susername, %[1]spassword): %w", keys, err)
	case http.StatusForbidden:
		return fmt.Errorf("the user may not do this (%susername): %w", keys, err)
	case http.StatusBadRequest:
		if f == nil { // the answer is from a proxy in front of Elasticsearch, not about these documents
			return err
		}
		return records.Classify(err, records.ErrRefused)
	case http.StatusRequestEntityTooLarge:
		return records.Classify(err, records.ErrTooLarge)
	}
	return err
}

// keys is the common prefix of the names of Elasticsearch's settings.
const keys = "whisk.activation-store.elasticsearch."

// settings names the key that an operator checks when no server could be reached.
func settings(err error) string {
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return " (whisk.gpu.elasticsearch.certificate)"
	}
	return " (" + keys + "hosts)"
}

// words is the text of a failure. Later versions end a reason with a preview of the
// field's value, which is a user's and goes nowhere.
func words(status int, f *failure) string {
	if f == nil || f.Type == "" {
		return fmt.Sprintf("Elasticsearch answers status %d", status)
	}
	const most = 300
	reason, _, _ := strings.Cut(f.Reason, "Preview of field's value")
	if reason = strings.TrimRight(reason, " ."); len(reason) > most {
		reason = strings.ToValidUTF8(reason[:most], "") + "..."
	}
	return fmt.Sprintf("Elasticsearch answers status %d, %s: %s", status, f.Type, reason)
}
