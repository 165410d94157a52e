package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Errors of a Survey's parts wrap these errors.
var (
	// ErrUnauthorized means that the credentials are not accepted.
	ErrUnauthorized = errors.New("user or password not accepted")
	// ErrForbidden means that the user lacks the permission.
	ErrForbidden = errors.New("not allowed for this user")
)

// Survey is the state of a database server and an invoker's databases.
type Survey struct {
	// Server is the product and version, such as "CouchDB 3.3.3".
	Server string
	// Whisks, Subjects and Activations are the three databases.
	Whisks, Subjects, Activations Database
}

// Database is the state of one database as the invoker's user sees it.
type Database struct {
	Name string
	// Read is nil if documents can be read. It wraps ErrNoDatabase if the database does
	// not exist.
	Read error
	// Write is nil if documents can be written. It is tested only for the database of
	// records, because the invoker writes to no other.
	Write error
	// Documents is the number of documents.
	Documents int64
	// Lacking lists the design documents of OpenWhisk's deployment that do not exist.
	Lacking []string
}

// The design documents of OpenWhisk's queries (OpenWhisk: ansible/files/*.json).
const (
	whisksDesign     = "whisks.v2.1.0"
	filtersDesign    = "whisks-filters.v2.1.1"
	identitiesDesign = "subjects.v2.0.0"
	blockedDesign    = "namespaceThrottlings"
)

// Inspect surveys the databases of a configuration. It writes nothing: an empty batch
// shows whether records may be written.
func Inspect(ctx context.Context, cfg Config) (Survey, error) {
	transport := newTransport()
	defer transport.CloseIdleConnections()
	v := rawClient{cfg: cfg, client: &http.Client{Transport: transport}}
	var s Survey
	var err error
	if s.Server, err = v.server(ctx); err != nil {
		return Survey{}, err
	}
	s.Whisks = v.database(ctx, cfg.Whisks, whisksDesign)
	s.Subjects = v.database(ctx, cfg.Subjects, identitiesDesign, blockedDesign)
	if cfg.Activations == "" {
		return s, nil // records go to another store
	}
	s.Activations = v.database(ctx, cfg.Activations, whisksDesign, filtersDesign)
	if s.Activations.Read == nil {
		s.Activations.Write = v.write(ctx)
	}
	return s, nil
}

// Document reads the document of an action, without its attachments.
func Document(ctx context.Context, cfg Config, id string) (doc json.RawMessage, err error) {
	transport := newTransport()
	defer transport.CloseIdleConnections()
	v := rawClient{cfg: cfg, client: &http.Client{Transport: transport}}
	err = v.call(ctx, http.MethodGet, url.PathEscape(cfg.Whisks)+"/"+url.PathEscape(id), "", &doc)
	return doc, err
}

type rawClient struct {
	cfg    Config
	client *http.Client
}

// write sends an empty batch to check the permission to write records.
func (v rawClient) write(ctx context.Context) error {
	return v.call(ctx, http.MethodPost, v.bulkPath(), `{"docs":[]}`, nil)
}

func (v rawClient) bulkPath() string { return url.PathEscape(v.cfg.Activations) + "/_bulk_docs" }

func (v rawClient) probe(ctx context.Context) error {
	for _, name := range []string{v.cfg.Whisks, v.cfg.Subjects, v.cfg.Activations} {
		if name == "" {
			return nil // records go to another store
		}
		if err := v.call(ctx, http.MethodGet, url.PathEscape(name), "", nil); err != nil {
			return fmt.Errorf("probe database %s: %w", name, v.cfg.explain(err, name))
		}
	}
	if err := v.write(ctx); err != nil {
		return fmt.Errorf("probe database %s for writing: %w", v.cfg.Activations, v.cfg.explain(err, v.cfg.Activations))
	}
	return nil
}

func (v rawClient) server(ctx context.Context) (string, error) {
	// CouchDB's vendor is a foundation. Other servers name their product in that field.
	var welcome struct {
		Version string
		Vendor  struct{ Name string }
	}
	if err := v.call(ctx, http.MethodGet, "", "", &welcome); err != nil {
		return "", err
	}
	name := welcome.Vendor.Name
	if name == "" || strings.HasPrefix(name, "The Apache") {
		name = "CouchDB"
	}
	return strings.TrimSpace(name + " " + welcome.Version), nil
}

func (v rawClient) database(ctx context.Context, name string, designs ...string) Database {
	d := Database{Name: name}
	var info struct {
		Documents int64 `json:"doc_count"`
	}
	if d.Read = v.call(ctx, http.MethodGet, url.PathEscape(name), "", &info); d.Read != nil {
		if errors.Is(d.Read, errMissing) {
			d.Read = ErrNoDatabase
		}
		return d
	}
	d.Documents = info.Documents
	for _, design := range designs {
		err := v.call(ctx, http.MethodHead, url.PathEscape(name)+"/_design/"+design, "", nil)
		switch {
		case errors.Is(err, errMissing):
			d.Lacking = append(d.Lacking, design)
		case err != nil:
			d.Read = err
			return d
		}
	}
	return d
}

// send sends one request to a path of the server.
func (v rawClient) send(ctx context.Context, method, path string, body ...[]byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(v.cfg.URL, "/")+"/"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask couchdb: %w", err)
	}
	setBody(req, body)
	if v.cfg.Username != "" {
		req.SetBasicAuth(v.cfg.Username, v.cfg.Password)
	}
	req.Header.Set("Accept", "application/json")
	if req.ContentLength > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := v.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask couchdb: %w", err)
	}
	return res, nil
}

// setBody gives a request a body in parts. Like the body of a bytes.Reader, it has a
// known length and can be sent again on another connection.
func setBody(req *http.Request, parts [][]byte) {
	for _, part := range parts {
		req.ContentLength += int64(len(part))
	}
	if req.ContentLength == 0 {
		return
	}
	req.GetBody = func() (io.ReadCloser, error) {
		body := net.Buffers(slices.Clone(parts)) // reading consumes the slice, not the parts
		return io.NopCloser(&body), nil
	}
	req.Body, _ = req.GetBody()
}

// call sends one request and decodes its answer.
func (v rawClient) call(ctx context.Context, method, path, body string, into any) error {
	what := method + " /" + path
	res, err := v.send(ctx, method, path, []byte(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := refusal(res.StatusCode); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	const most = 64 << 20 // most answers have a few hundred bytes, but the answer with an action contains its code
	limited := io.LimitReader(res.Body, most)
	if into == nil {
		_, err = io.Copy(io.Discard, limited)
	} else {
		err = json.NewDecoder(limited).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("%s: read answer: %w", what, err)
	}
	return nil
}

func refusal(status int) error {
	switch {
	case status < 300:
		return nil
	case status == http.StatusUnauthorized:
		return ErrUnauthorized
	case status == http.StatusForbidden:
		return ErrForbidden
	case status == http.StatusNotFound:
		return errMissing
	}
	return fmt.Errorf("status %d", status)
}
