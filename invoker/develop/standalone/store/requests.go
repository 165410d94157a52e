package store

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// docResult is CouchDB's answer for one written document.
type docResult struct {
	OK     bool   `json:"ok,omitempty"`
	ID     string `json:"id"`
	Rev    string `json:"rev,omitempty"`
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// named gives a request with the document that its path names.
func named(fn func(db *database, r *request, id string) (answer, error)) func(*database, *request) (answer, error) {
	return func(db *database, r *request) (answer, error) {
		id := r.PathValue("id")
		if design := r.PathValue("design"); design != "" {
			id = "_design/" + design
		} else if strings.HasPrefix(id, "_") {
			return nil, notServed()
		}
		if err := validID(id); err != nil {
			return nil, err
		}
		return fn(db, r, id)
	}
}

func (db *database) getDocument(r *request, id string) (answer, error) {
	rec, err := db.existing(id)
	if err != nil {
		return nil, err
	}
	r.w.Header().Set("ETag", strconv.Quote(rec.rev))
	return rec.render(id), nil
}

func (db *database) putDocument(r *request, id string) (answer, error) {
	in, err := parseDoc(r.body)
	if err != nil {
		return nil, err
	}
	if in.ID != "" && in.ID != id {
		return nil, badRequest("Document ID must match the URL")
	}
	in.ID, in.Rev = id, cmp.Or(r.rev(), in.Rev)
	rev, err := db.put(in)
	return r.written(id, rev), err
}

func (db *database) deleteDocument(r *request, id string) (answer, error) {
	rev, err := db.put(&incoming{ID: id, Rev: r.rev(), Deleted: true})
	return r.written(id, rev), err
}

// rev is the revision that the query names.
func (r *request) rev() string { return r.URL.Query().Get("rev") }

// written answers with the new revision of a document.
func (r *request) written(id, rev string) docResult {
	r.w.Header().Set("ETag", strconv.Quote(rev))
	return docResult{OK: true, ID: id, Rev: rev}
}

func (db *database) putAttachment(r *request, id string) (answer, error) {
	name := r.PathValue("name")
	if strings.ContainsRune(name, 0) {
		return nil, badRequest("Attachment name must not contain a zero byte")
	}
	rev, err := db.attach(id, r.rev(), name, r.Header.Get("Content-Type"), r.body)
	return r.written(id, rev), err
}

func (db *database) getAttachment(r *request, id string) (answer, error) {
	rec, err := db.existing(id)
	if err != nil {
		return nil, err
	}
	what, ok := rec.atts[r.PathValue("name")]
	if !ok {
		return nil, notFound("Document is missing attachment")
	}
	h := r.w.Header()
	h["Content-Type"] = []string{what.ContentType}
	h.Set("ETag", strconv.Quote(strings.TrimPrefix(what.Digest, "md5-")))
	return bytes.Clone(db.blobs.Get(blobKey(id, r.PathValue("name")))), nil
}

// bulkDocs writes many documents in one commit, each accepted or refused by
// itself.
func (db *database) bulkDocs(r *request) (answer, error) {
	docs, err := parseBulk(r.body)
	if err != nil {
		return nil, err
	}
	results := make([]docResult, len(docs))
	for i, in := range docs {
		rev, err := db.put(in)
		var refused *refusal
		switch {
		case errors.As(err, &refused):
			results[i] = docResult{ID: in.ID, Error: refused.word, Reason: refused.reason}
		case err != nil:
			return nil, err
		default:
			results[i] = docResult{OK: true, ID: in.ID, Rev: rev}
		}
	}
	return results, nil
}

func parseBulk(raw []byte) ([]*incoming, error) {
	var request struct {
		Docs     []json.RawMessage `json:"docs"`
		NewEdits *bool             `json:"new_edits"`
	}
	switch err := json.Unmarshal(raw, &request); {
	case err != nil:
		return nil, badRequest("invalid UTF-8 JSON")
	case request.Docs == nil:
		return nil, badRequest("POST body must include `docs` parameter.")
	case request.NewEdits != nil && !*request.NewEdits:
		return nil, notServed() // replication
	}
	docs := make([]*incoming, len(request.Docs))
	for i, doc := range request.Docs {
		in, err := parseDoc(doc)
		if err != nil {
			return nil, err
		}
		if in.ID == "" {
			in.ID = strings.ToLower(rand.Text())
		}
		if err := validID(in.ID); err != nil {
			return nil, err
		}
		docs[i] = in
	}
	return docs, nil
}
