package store

import (
	"compress/gzip"
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

// apiError is a refusal in CouchDB's words.
type apiError struct {
	status int
	word   string
	reason string
}

// Error gives the words.
func (e *apiError) Error() string { return e.word + ": " + e.reason }

// request is one HTTP request, its path taken apart.
type request struct {
	*http.Request
	w    http.ResponseWriter
	path []string // unescaped segments
}

// ServeHTTP answers one request.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.authorized(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="store"`)
		fail(w, &apiError{401, "unauthorized", "Name or password is incorrect."})
		return
	}
	path, err := splitPath(r.URL)
	if err != nil {
		fail(w, &apiError{400, "bad_request", "The path is not properly escaped."})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	err = s.route(&request{r, w, path})
	var refusal *apiError
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
	case errors.As(err, &refusal):
		fail(w, refusal)
	case errors.As(err, &tooLarge):
		fail(w, &apiError{413, "document_too_large", "The request is too large."})
	default:
		s.log.Error("store request failed", "method", r.Method, "path", r.URL.Path, "err", err)
		fail(w, &apiError{500, "internal_server_error", "The store could not answer."})
	}
}

func (s *Store) authorized(r *http.Request) bool {
	if s.cfg.User == "" {
		return true
	}
	user, password, ok := r.BasicAuth()
	// Compare both whatever the first says, in constant time.
	userOK := subtle.ConstantTimeCompare([]byte(user), []byte(s.cfg.User))
	passOK := subtle.ConstantTimeCompare([]byte(password), []byte(s.cfg.Password))
	return ok && userOK&passOK == 1
}

// splitPath unescapes each segment by itself, because ids contain escaped
// slashes, and reads a plus as a space, as CouchDB does and OpenWhisk relies on.
func splitPath(u *url.URL) ([]string, error) {
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
	if len(r.path) == 0 {
		return r.reply(200, map[string]any{"couchdb": "Welcome", "version": "3.4.3", "vendor": map[string]string{"name": "GPU Whisk"}})
	}
	switch r.path[0] {
	case "_up":
		return r.reply(200, map[string]string{"status": "ok"})
	case "_all_dbs":
		return s.allDBs(r)
	}
	if strings.HasPrefix(r.path[0], "_") {
		return notServed()
	}
	if len(r.path) == 1 {
		return s.routeDatabase(r)
	}
	return s.routeInside(r)
}

func (s *Store) routeDatabase(r *request) error {
	switch r.Method {
	case http.MethodPut:
		return s.createDB(r)
	case http.MethodDelete:
		return s.deleteDB(r)
	case http.MethodGet, http.MethodHead:
		return s.dbInfo(r)
	case http.MethodPost:
		return s.postDoc(r)
	}
	return notAllowed()
}

func (s *Store) routeInside(r *request) error {
	rest := r.path[1:]
	switch {
	case rest[0] == "_bulk_docs":
		return s.bulkDocs(r)
	case rest[0] == "_all_docs":
		return s.allDocs(r)
	case rest[0] == "_security":
		return r.reply(200, map[string]any{"ok": true})
	case rest[0] == "_design" && len(rest) == 4 && rest[2] == "_view":
		return s.queryView(r, rest[1]+"/"+rest[3])
	case rest[0] == "_design" && len(rest) == 2:
		return s.routeDoc(r, "_design/"+rest[1], "")
	case strings.HasPrefix(rest[0], "_"):
		return notServed()
	case len(rest) == 1:
		return s.routeDoc(r, rest[0], "")
	default:
		return s.routeDoc(r, rest[0], strings.Join(rest[1:], "/"))
	}
}

func notServed() *apiError {
	return &apiError{501, "not_implemented", "This store does not serve that part of CouchDB."}
}

func notAllowed() *apiError {
	return &apiError{405, "method_not_allowed", "The method is not allowed here."}
}

// view runs fn on the database of the request in a read transaction.
func (s *Store) view(r *request, fn func(*database) error) error {
	return s.db.View(func(tx *bolt.Tx) error {
		db := open(tx, r.path[0])
		if db == nil {
			return noDatabase()
		}
		return fn(db)
	})
}

// change runs fn on the database of the request in the next commit. fn returns
// its refusal apart from storage errors (see write).
func (s *Store) change(r *request, fn func(*database) (*apiError, error)) error {
	var refusal *apiError
	err := s.update(func(tx *bolt.Tx) error {
		refusal = nil // a second try starts afresh
		db := open(tx, r.path[0])
		if db == nil {
			refusal = noDatabase()
			return nil
		}
		var err error
		refusal, err = fn(db)
		return err
	})
	if err != nil {
		return err
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

func noDatabase() *apiError { return &apiError{404, "not_found", "Database does not exist."} }

// body reads the request, which clients may have compressed.
func (r *request) body() ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	plain, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, &apiError{400, "bad_request", "The body is not compressed as its header says."}
	}
	// The limit holds for what comes out, too.
	b, err := io.ReadAll(io.LimitReader(plain, maxBody+1))
	switch {
	case err != nil:
		return nil, &apiError{400, "bad_request", "The body is not compressed as its header says."}
	case len(b) > maxBody:
		return nil, &apiError{413, "document_too_large", "The request is too large."}
	}
	return b, nil
}

// doc reads the document in the body.
func (r *request) doc() (*incoming, error) {
	raw, err := r.body()
	if err != nil {
		return nil, err
	}
	return parseDoc(raw)
}

// rows reads which rows are asked for, from the URL and the body.
func (r *request) rows() (*query, error) {
	raw, err := r.body()
	if err != nil {
		return nil, err
	}
	return parseQuery(r.URL.Query(), raw)
}

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
		_, _ = r.w.Write(append(b, '\n')) // a client that went away has no claim
	}
	return nil
}

func fail(w http.ResponseWriter, e *apiError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	b, _ := json.Marshal(map[string]string{"error": e.word, "reason": e.reason})
	_, _ = w.Write(append(b, '\n'))
}
