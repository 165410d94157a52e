package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"
)

func (s *Store) allDBs(r *request) error {
	names := []string{}
	err := s.db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			names = append(names, string(name))
			return nil
		})
	})
	if err != nil {
		return err
	}
	return r.reply(200, names)
}

func (s *Store) createDB(r *request) error {
	name := r.path[0]
	if !regexp.MustCompile(`^[a-z][a-z0-9_$()+/-]*$`).MatchString(name) {
		return &apiError{400, "illegal_database_name", "Name: '" + name + "'. Only lower case letters, digits and _$()+-/ are allowed."}
	}
	var exists bool
	err := s.update(func(tx *bolt.Tx) error {
		if exists = tx.Bucket([]byte(name)) != nil; exists {
			return nil
		}
		return create(tx, name)
	})
	if err != nil {
		return err
	}
	if exists {
		return &apiError{412, "file_exists", "The database could not be created, the file already exists."}
	}
	return r.reply(201, map[string]bool{"ok": true})
}

func (s *Store) deleteDB(r *request) error {
	err := s.change(r, func(db *database) (*apiError, error) {
		return nil, db.tx.DeleteBucket([]byte(r.path[0]))
	})
	if err != nil {
		return err
	}
	return r.reply(200, map[string]bool{"ok": true})
}

func (s *Store) dbInfo(r *request) error {
	var docs uint64
	if err := s.view(r, func(db *database) error {
		docs = db.docs.Sequence()
		return nil
	}); err != nil {
		return err
	}
	return r.reply(200, map[string]any{"db_name": r.path[0], "doc_count": docs})
}

// validID refuses what CouchDB refuses, and the zero byte that separates
// attachment keys.
func validID(id string) *apiError {
	switch {
	case id == "":
		return &apiError{400, "illegal_docid", "Document id must not be empty"}
	case strings.HasPrefix(id, "_") && !strings.HasPrefix(id, "_design/"):
		return &apiError{400, "illegal_docid", "Only reserved document ids may start with underscore."}
	case strings.ContainsRune(id, 0):
		return &apiError{400, "illegal_docid", "Document id must not contain a zero byte"}
	case len(id) > 8192: // bbolt's keys end at 32 KiB, and index keys hold more than the id
		return &apiError{400, "illegal_docid", "Document id is too long"}
	}
	return nil
}

func (s *Store) routeDoc(r *request, id, attachment string) error {
	if refusal := validID(id); refusal != nil {
		return refusal
	}
	if attachment != "" {
		return s.routeAtt(r, id, attachment)
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return s.getDoc(r, id)
	case http.MethodPut:
		return s.putDoc(r, id)
	case http.MethodDelete:
		return s.deleteDoc(r, id)
	}
	return notAllowed()
}

// living finds a document that is not deleted.
func living(db *database, id, rev string) (*record, error) {
	rec, err := db.record(id)
	switch {
	case err != nil:
		return nil, err
	case rec == nil:
		return nil, &apiError{404, "not_found", "missing"}
	case rec.deleted():
		return nil, &apiError{404, "not_found", "deleted"}
	case rev != "" && rev != rec.rev:
		return nil, &apiError{404, "not_found", "missing"}
	}
	return rec, nil
}

func (s *Store) getDoc(r *request, id string) error {
	q := r.URL.Query()
	var text []byte
	var rev string
	err := s.view(r, func(db *database) error {
		rec, err := living(db, id, q.Get("rev"))
		if err != nil {
			return err
		}
		rev = rec.rev
		text, err = db.rendered(id, rec, q.Get("attachments") == "true")
		return err
	})
	if err != nil {
		return err
	}
	r.w.Header().Set("ETag", strconv.Quote(rev))
	if match := r.Header.Get("If-None-Match"); match == strconv.Quote(rev) {
		r.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return r.replyRaw(200, text)
}

// claimedRev is the revision a writer names, in the URL or in If-Match.
func claimedRev(r *request) string {
	if rev := r.URL.Query().Get("rev"); rev != "" {
		return rev
	}
	return strings.Trim(r.Header.Get("If-Match"), `"`)
}

func (s *Store) putDoc(r *request, id string) error {
	in, err := r.doc()
	if err != nil {
		return err
	}
	if in.id != "" && in.id != id {
		return &apiError{400, "bad_request", "Document ID must match the URL"}
	}
	in.id = id
	if rev := claimedRev(r); rev != "" {
		in.rev = rev
	}
	return s.write(r, in, 201)
}

func (s *Store) postDoc(r *request) error {
	in, err := r.doc()
	if err != nil {
		return err
	}
	if in.id == "" {
		in.id = newID()
	}
	if refusal := validID(in.id); refusal != nil {
		return refusal
	}
	return s.write(r, in, 201)
}

func (s *Store) deleteDoc(r *request, id string) error {
	return s.write(r, &incoming{id: id, rev: claimedRev(r), deleted: true}, 200)
}

func (s *Store) write(r *request, in *incoming, status int) error {
	var rev string
	err := s.change(r, func(db *database) (refusal *apiError, err error) {
		rev, refusal, err = put(db, in)
		return refusal, err
	})
	if err != nil {
		return err
	}
	r.w.Header().Set("ETag", strconv.Quote(rev))
	return r.reply(status, docResult{OK: true, ID: in.id, Rev: rev})
}

func (s *Store) routeAtt(r *request, id, name string) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return s.getAtt(r, id, name)
	case http.MethodPut:
		return s.putAtt(r, id, name, false)
	case http.MethodDelete:
		return s.putAtt(r, id, name, true)
	}
	return notAllowed()
}

func (s *Store) getAtt(r *request, id, name string) error {
	var what stub
	var data []byte
	err := s.view(r, func(db *database) error {
		rec, err := living(db, id, r.URL.Query().Get("rev"))
		if err != nil {
			return err
		}
		var ok bool
		if what, ok = rec.atts[name]; !ok {
			return &apiError{404, "not_found", "Document is missing attachment"}
		}
		data = bytes.Clone(db.blobs.Get(blobKey(id, name)))
		return nil
	})
	if err != nil {
		return err
	}
	h := r.w.Header()
	h.Set("Content-Type", what.ContentType)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("ETag", strconv.Quote(strings.TrimPrefix(what.Digest, "md5-")))
	h.Set("Content-MD5", strings.TrimPrefix(what.Digest, "md5-"))
	r.w.WriteHeader(200)
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(data)
	}
	return nil
}

func (s *Store) putAtt(r *request, id, name string, remove bool) error {
	if strings.ContainsRune(name, 0) {
		return &apiError{400, "bad_request", "Attachment name must not contain a zero byte"}
	}
	data, err := r.body()
	if err != nil {
		return err
	}
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	var rev string
	err = s.change(r, func(db *database) (refusal *apiError, err error) {
		rev, refusal, err = putAtt(db, id, claimedRev(r), name, contentType, data, remove)
		return refusal, err
	})
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if remove {
		status = http.StatusOK
	}
	return r.reply(status, docResult{OK: true, ID: id, Rev: rev})
}

func (s *Store) queryView(r *request, name string) error {
	v, ok := findView(name)
	if !ok {
		return &apiError{404, "not_found", "missing_named_view"}
	}
	q, err := r.rows()
	if err != nil {
		return err
	}
	var answer []byte
	err = s.view(r, func(db *database) error {
		answer, err = db.answer(v, q)
		return err
	})
	if err != nil {
		return err
	}
	return r.replyRaw(200, answer)
}

func (db *database) answer(v view, q *query) ([]byte, error) {
	if q.reduced(v) {
		n, err := db.count(v, q)
		return countBody(n), err
	}
	rows, err := db.rows(v, q)
	if err != nil {
		return nil, err
	}
	total := uint64(0)
	if b := db.viewBucket(v.name); b != nil {
		total = b.Sequence()
	}
	text, err := json.Marshal(map[string]any{"total_rows": total, "offset": q.skip, "rows": rows})
	if err != nil {
		return nil, fmt.Errorf("encode rows of %s: %w", v.name, err)
	}
	return text, nil
}
