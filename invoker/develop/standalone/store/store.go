// Package store is a small document database in one file that speaks the part
// of CouchDB's HTTP API that the standalone controller and the invoker use:
// documents with revisions, attachments, _bulk_docs and the views of an
// OpenWhisk deployment, computed natively. With it, both use their database as
// in production, with nothing to install.
//
// It is not a CouchDB: it keeps no revision trees, replicates nothing and runs
// no JavaScript. A design document can be stored; its views answer only when
// they are among those listed in view.go.
//
// It starts no goroutine of its own. A request that changes something returns
// after its change is on disk.
package store

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Config is the file of a store and its user.
type Config struct {
	// Path is the database file; its directory is created.
	Path string
	// User and Password guard every request by basic authentication. An empty
	// user admits all requests.
	User, Password string
	// Log gets what went wrong; nil discards it.
	Log *slog.Logger
}

// Store is an open database. It serves HTTP from many goroutines at once.
type Store struct {
	cfg Config
	log *slog.Logger
	db  *bolt.DB
}

const (
	// lockWait is how long Open waits for another process to unlock the file.
	lockWait = 2 * time.Second
	// batchDelay is how long a change waits for others to share its commit,
	// which takes two flushes of the disk whatever it holds.
	batchDelay = time.Millisecond
)

// Open opens or creates the database file.
func Open(cfg Config) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(cfg.Path), 0o700); err != nil {
		return nil, fmt.Errorf("create store directory: %w", err)
	}
	db, err := bolt.Open(cfg.Path, 0o600, &bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("open store %s (is another process using it?): %w", cfg.Path, err)
	}
	db.MaxBatchDelay = batchDelay
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Store{cfg: cfg, log: log, db: db}, nil
}

// Close ends after what is being committed and closes the file. Requests that
// come later fail.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// maxBody bounds a request: OpenWhisk accepts code of up to 48 MiB, which is
// a third larger in base64.
const maxBody = 96 << 20

// refusal is an error as CouchDB words it, with its HTTP status.
type refusal struct {
	status int
	word   string
	reason string
}

// Error is the text.
func (e *refusal) Error() string { return e.word + ": " + e.reason }

func badRequest(reason string) *refusal {
	return &refusal{http.StatusBadRequest, "bad_request", reason}
}
func notFound(reason string) *refusal { return &refusal{http.StatusNotFound, "not_found", reason} }
func conflict() *refusal {
	return &refusal{http.StatusConflict, "conflict", "Document update conflict."}
}
func notServed() *refusal {
	return &refusal{http.StatusNotImplemented, "not_implemented", "This store does not serve that part of CouchDB."}
}
func notAllowed() *refusal {
	return &refusal{http.StatusMethodNotAllowed, "method_not_allowed", "The method is not allowed here."}
}

// request is one HTTP request, its path taken apart.
type request struct {
	*http.Request
	w    http.ResponseWriter
	path []string // unescaped segments
}

// ServeHTTP answers one request.
func (s *Store) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	hr.Body = http.MaxBytesReader(w, hr.Body, maxBody)
	r := &request{Request: hr, w: w}
	err := s.answer(r)
	if err == nil {
		return
	}
	var answer *refusal
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &answer):
	case errors.As(err, &tooLarge):
		answer = &refusal{http.StatusRequestEntityTooLarge, "document_too_large", "The request is too large."}
	default:
		s.log.Error("store request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		answer = &refusal{http.StatusInternalServerError, "internal_server_error", "The store could not answer."}
	}
	_ = r.reply(answer.status, map[string]string{"error": answer.word, "reason": answer.reason})
}

func (s *Store) answer(r *request) (err error) {
	if !s.authorized(r.Request) {
		r.w.Header().Set("WWW-Authenticate", `Basic realm="store"`)
		return &refusal{http.StatusUnauthorized, "unauthorized", "Name or password is incorrect."}
	}
	if r.path, err = segments(r.URL); err != nil {
		return badRequest("The path is not properly escaped.")
	}
	return s.route(r)
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

// segments unescapes each segment by itself, because ids contain escaped
// slashes, and reads a plus as a space, as CouchDB does and OpenWhisk relies on.
func segments(u *url.URL) ([]string, error) {
	trimmed := strings.Trim(u.EscapedPath(), "/")
	if trimmed == "" {
		return nil, nil
	}
	parts := strings.Split(trimmed, "/")
	for i, p := range parts {
		text, err := url.QueryUnescape(p)
		if err != nil {
			return nil, err
		}
		parts[i] = text
	}
	return parts, nil
}

func (s *Store) route(r *request) error {
	p := r.path
	switch {
	case len(p) == 0:
		return r.reply(http.StatusOK, map[string]string{"couchdb": "Welcome", "version": "3.4.3"})
	case strings.HasPrefix(p[0], "_"):
		return notServed()
	case len(p) == 1:
		return s.serveDatabase(r)
	case p[1] == "_bulk_docs" && len(p) == 2:
		return s.bulkDocs(r)
	case p[1] == "_design" && len(p) == 5 && p[3] == "_view":
		return s.queryView(r, p[2]+"/"+p[4])
	case p[1] == "_design" && len(p) == 3:
		return s.serveDocument(r, "_design/"+p[2])
	case strings.HasPrefix(p[1], "_"):
		return notServed()
	case len(p) == 2:
		return s.serveDocument(r, p[1])
	}
	return s.serveAttachment(r, p[1], strings.Join(p[2:], "/"))
}

// view runs fn on the database of the request in a read transaction.
func (s *Store) view(r *request, fn func(*database) error) error {
	return s.db.View(func(tx *bolt.Tx) error { return within(tx, r, fn) })
}

// change runs fn on the database of the request in a transaction, perhaps with
// other changes, and perhaps again. An error undoes what fn changed.
func (s *Store) change(r *request, fn func(*database) error) error {
	return s.db.Batch(func(tx *bolt.Tx) error { return within(tx, r, fn) })
}

func within(tx *bolt.Tx, r *request, fn func(*database) error) error {
	db := open(tx, r.path[0])
	if db == nil {
		return notFound("Database does not exist.")
	}
	return fn(db)
}

func (r *request) body() ([]byte, error) { return io.ReadAll(r.Body) }

func (r *request) reply(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return r.replyRaw(status, b)
}

func (r *request) replyRaw(status int, b []byte) error {
	r.w.Header().Set("Content-Type", "application/json")
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(append(b, '\n')) // an error here is of a client that went away
	}
	return nil
}
