package store

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
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

func (s *Store) serveDocument(r *request, id string) error {
	if err := validID(id); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return s.getDocument(r, id)
	case http.MethodPut:
		raw, err := r.body()
		if err != nil {
			return err
		}
		in, err := parseDoc(raw)
		if err != nil {
			return err
		}
		if in.id != "" && in.id != id {
			return badRequest("Document ID must match the URL")
		}
		in.id = id
		if rev := r.URL.Query().Get("rev"); rev != "" {
			in.rev = rev
		}
		return s.write(r, id, http.StatusCreated, func(db *database) (string, error) { return db.put(in) })
	case http.MethodDelete:
		in := &incoming{id: id, rev: r.URL.Query().Get("rev"), deleted: true}
		return s.write(r, id, http.StatusOK, func(db *database) (string, error) { return db.put(in) })
	}
	return notAllowed()
}

// write commits a change of one document and answers with its new revision.
func (s *Store) write(r *request, id string, status int, fn func(*database) (string, error)) error {
	var rev string
	err := s.change(r, func(db *database) (err error) {
		rev, err = fn(db)
		return err
	})
	if err != nil {
		return err
	}
	r.w.Header().Set("ETag", strconv.Quote(rev))
	return r.reply(status, docResult{OK: true, ID: id, Rev: rev})
}

func (s *Store) getDocument(r *request, id string) error {
	return s.view(r, func(db *database) error {
		rec, err := db.existing(id)
		if err != nil {
			return err
		}
		r.w.Header().Set("ETag", strconv.Quote(rec.rev))
		return r.replyRaw(http.StatusOK, rec.render(id))
	})
}

func (s *Store) serveAttachment(r *request, id, name string) error {
	if err := validID(id); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		return s.getAttachment(r, id, name)
	case http.MethodPut:
		if strings.ContainsRune(name, 0) {
			return badRequest("Attachment name must not contain a zero byte")
		}
		data, err := r.body()
		if err != nil {
			return err
		}
		return s.write(r, id, http.StatusCreated, func(db *database) (string, error) {
			return db.attach(id, r.URL.Query().Get("rev"), name, r.Header.Get("Content-Type"), data)
		})
	}
	return notAllowed()
}

func (s *Store) getAttachment(r *request, id, name string) error {
	return s.view(r, func(db *database) error {
		rec, err := db.existing(id)
		if err != nil {
			return err
		}
		what, ok := rec.atts[name]
		if !ok {
			return notFound("Document is missing attachment")
		}
		h := r.w.Header()
		h.Set("Content-Type", what.ContentType)
		h.Set("Content-Length", strconv.Itoa(what.Length))
		h.Set("ETag", strconv.Quote(strings.TrimPrefix(what.Digest, "md5-")))
		_, _ = r.w.Write(db.blobs.Get(blobKey(id, name))) // an error here is of a client that went away
		return nil
	})
}

// bulkDocs writes many documents in one commit, each accepted or refused by
// itself.
func (s *Store) bulkDocs(r *request) error {
	if r.Method != http.MethodPost {
		return notAllowed()
	}
	raw, err := r.body()
	if err != nil {
		return err
	}
	docs, err := parseBulk(raw)
	if err != nil {
		return err
	}
	results := make([]docResult, len(docs))
	err = s.change(r, func(db *database) error {
		for i, in := range docs {
			rev, err := db.put(in)
			var refused *refusal
			switch {
			case errors.As(err, &refused):
				results[i] = docResult{ID: in.id, Error: refused.word, Reason: refused.reason}
			case err != nil:
				return err
			default:
				results[i] = docResult{OK: true, ID: in.id, Rev: rev}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.reply(http.StatusCreated, results)
}

func parseBulk(raw []byte) ([]*incoming, error) {
	var request struct {
		Docs     []json.RawMessage `json:"docs"`
		NewEdits *bool             `json:"new_edits"`
	}
	if err := json.Unmarshal(raw, &request); err != nil {
		return nil, badRequest("invalid UTF-8 JSON")
	}
	if request.Docs == nil {
		return nil, badRequest("POST body must include `docs` parameter.")
	}
	if request.NewEdits != nil && !*request.NewEdits {
		return nil, notServed() // replication
	}
	docs := make([]*incoming, len(request.Docs))
	for i, doc := range request.Docs {
		in, err := parseDoc(doc)
		if err != nil {
			return nil, err
		}
		if in.id == "" {
			in.id = strings.ToLower(rand.Text())
		}
		if err := validID(in.id); err != nil {
			return nil, err
		}
		docs[i] = in
	}
	return docs, nil
}
