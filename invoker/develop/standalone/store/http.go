package store

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// maxBody bounds a request: OpenWhisk accepts code of up to 48 MiB, which is
// a third larger in base64.
const maxBody = 96 << 20

// refusal is an error as CouchDB words it, with its HTTP status.
type refusal struct {
	status       int
	word, reason string
}

// Error is the text.
func (e *refusal) Error() string { return e.word + ": " + e.reason }

func badRequest(reason string) error {
	return &refusal{http.StatusBadRequest, "bad_request", reason}
}

func notFound(reason string) error { return &refusal{http.StatusNotFound, "not_found", reason} }

func notServed() error {
	return &refusal{http.StatusNotImplemented, "not_implemented", "This store does not serve that part of CouchDB."}
}

// request is one HTTP request with its body.
type request struct {
	*http.Request
	w    http.ResponseWriter
	body []byte
}

// answer is the bytes of a body, or a value to be encoded as JSON.
type answer any

// route registers the handlers. A handler works on the database in the path, in a
// transaction. A transaction may contain several changes and may be repeated. An error
// rolls a change back.
func (s *Store) route() {
	s.mux = http.NewServeMux()
	s.handle("/{$}", func(*request) (answer, error) {
		return map[string]string{"couchdb": "Welcome", "version": "3.4.3"}, nil
	})
	s.handle("PUT /{db}", s.createDatabase)
	read := func(path string, fn func(*database, *request) (answer, error)) {
		s.handle("GET "+path, func(r *request) (answer, error) { return s.within(s.db.View, r, fn) })
	}
	change := func(pattern string, fn func(*database, *request) (answer, error)) {
		s.handle(pattern, func(r *request) (answer, error) { return s.within(s.db.Batch, r, fn) })
	}
	read("/{db}", (*database).info)
	change("POST /{db}/_bulk_docs", (*database).bulkDocs)
	for _, path := range []string{"/{db}/{id}", "/{db}/_design/{design}"} {
		read(path, named((*database).getDocument))
		change("PUT "+path, named((*database).putDocument))
		change("DELETE "+path, named((*database).deleteDocument))
	}
	read("/{db}/{id}/{name...}", named((*database).getAttachment))
	change("PUT /{db}/{id}/{name...}", named((*database).putAttachment))
	read("/{db}/_design/{design}/_view/{view}", (*database).queryView)
}

func (s *Store) within(transaction func(func(*bolt.Tx) error) error, r *request, fn func(*database, *request) (answer, error)) (a answer, err error) {
	err = transaction(func(tx *bolt.Tx) error {
		name := r.PathValue("db")
		db := open(tx, name)
		switch {
		case strings.HasPrefix(name, "_"):
			return notServed()
		case db == nil:
			return notFound("Database does not exist.")
		}
		a, err = fn(db, r)
		if _, ready := a.([]byte); !ready && err == nil { // the values are valid only during the transaction
			a, err = json.Marshal(a)
		}
		return err
	})
	return a, err
}

func (s *Store) handle(pattern string, fn func(*request) (answer, error)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, hr *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
		var a answer
		if err == nil {
			a, err = fn(&request{hr, w, body})
		}
		s.reply(w, hr, a, err)
	})
}

// ServeHTTP answers one request. A plus in the path is a space, as CouchDB reads it
// and OpenWhisk relies on.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.authorized(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="store"`)
		s.reply(w, r, nil, &refusal{http.StatusUnauthorized, "unauthorized", "Name or password is incorrect."})
		return
	}
	path := strings.TrimRight(r.URL.EscapedPath(), "/")
	r.URL.RawPath = cmp.Or(strings.ReplaceAll(path, "+", "%20"), "/")
	r.URL.Path, _ = url.PathUnescape(r.URL.RawPath) // EscapedPath is escaped well
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.reply(w, r, nil, &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "The method is not allowed here."})
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Store) authorized(r *http.Request) bool {
	if s.cfg.User == "" {
		return true
	}
	user, password, ok := r.BasicAuth()
	// Compare both whatever the first gives, in constant time.
	userOK := subtle.ConstantTimeCompare([]byte(user), []byte(s.cfg.User))
	passOK := subtle.ConstantTimeCompare([]byte(password), []byte(s.cfg.Password))
	return ok && userOK&passOK == 1
}

// reply writes an answer with the status of the request's method.
func (s *Store) reply(w http.ResponseWriter, r *http.Request, a answer, err error) {
	status := http.StatusOK
	if r.Method == http.MethodPut || r.Method == http.MethodPost {
		status = http.StatusCreated
	}
	if err != nil {
		e := s.translate(r, err)
		status, a = e.status, map[string]string{"error": e.word, "reason": e.reason}
	}
	body, ready := a.([]byte)
	if !ready {
		body, _ = json.Marshal(a) // of texts alone
	}
	if _, typed := w.Header()["Content-Type"]; !typed {
		w.Header().Set("Content-Type", "application/json")
		body = append(body, '\n')
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error here is of a client that went away
}

func (s *Store) translate(r *http.Request, err error) *refusal {
	var refused *refusal
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &tooLarge):
		return &refusal{http.StatusRequestEntityTooLarge, "document_too_large", "The request is too large."}
	}
	s.cfg.Log.Error("store request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	return &refusal{http.StatusInternalServerError, "internal_server_error", "The store could not answer."}
}
