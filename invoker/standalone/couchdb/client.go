// Package couchdb is what the standalone controller says to a database that
// speaks CouchDB's HTTP API, embedded or not: documents, attachments, views,
// and the deployment that OpenWhisk's own scripts would have made (databases,
// design documents, the guest identity).
//
// The invoker's room for the same database, activation/couchdb, reads actions
// and writes records; this one writes actions and reads records. It starts no
// goroutine; a Client may be used by many at once.
package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Sentinels for what a caller acts upon.
var (
	ErrNotFound = errors.New("document not found")
	ErrConflict = errors.New("document update conflict")
	ErrExists   = errors.New("already exists")
)

// Names are the three databases of an OpenWhisk deployment.
type Names struct{ Whisks, Activations, Subjects string }

// Config says where the database is.
type Config struct {
	URL            string // http://host:port, without credentials
	User, Password string
	Names          Names
}

// Client talks to one database server.
type Client struct {
	cfg  Config
	http *http.Client
}

// connections is how many requests run at once before more wait. OpenWhisk's
// controller allows 128; on one machine half of that saturates a database.
const connections = 64

// New makes a client; it connects when it is first used.
func New(cfg Config) *Client {
	cfg.URL = strings.TrimRight(cfg.URL, "/")
	return &Client{cfg: cfg, http: &http.Client{Transport: &http.Transport{
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		MaxConnsPerHost:     connections,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}}}
}

// Names are the databases the client works on.
func (c *Client) Names() Names { return c.cfg.Names }

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request is one exchange.
type request struct {
	method      string
	path        []string // segments, not escaped
	query       url.Values
	body        []byte
	contentType string
}

// do sends the request and returns the body of a 2xx answer. Other answers are
// errors, of which the sentinels can be told apart.
func (c *Client) do(ctx context.Context, r request) ([]byte, error) {
	target := c.cfg.URL
	for _, segment := range r.path {
		target += "/" + strings.ReplaceAll(url.QueryEscape(segment), "+", "%20")
	}
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("make database request: %w", err)
	}
	req.SetBasicAuth(c.cfg.User, c.cfg.Password)
	req.Header.Set("Accept", "application/json")
	if r.contentType == "" {
		r.contentType = "application/json"
	}
	req.Header.Set("Content-Type", r.contentType)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach database: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read database answer: %w", err)
	}
	return body, statusError(r, res.StatusCode, body)
}

func statusError(r request, status int, body []byte) error {
	switch {
	case status < 300:
		return nil
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusConflict:
		return ErrConflict
	case status == http.StatusPreconditionFailed:
		return ErrExists
	}
	var says struct{ Error, Reason string }
	_ = json.Unmarshal(body, &says) // no JSON: the status has to do
	return fmt.Errorf("database answered %s %s with %d %s: %s", r.method, strings.Join(r.path, "/"), status, says.Error, says.Reason)
}

// Get reads a document.
func (c *Client) Get(ctx context.Context, db, id string) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: []string{db, id}})
}

// Put writes a document, whose _rev must be that of the one it replaces, and
// returns its new revision.
func (c *Client) Put(ctx context.Context, db, id string, doc []byte) (string, error) {
	return c.rev(c.do(ctx, request{method: http.MethodPut, path: []string{db, id}, body: doc}))
}

// Delete removes a document of that revision.
func (c *Client) Delete(ctx context.Context, db, id, rev string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: []string{db, id}, query: url.Values{"rev": {rev}}})
	return err
}

// PutAttachment attaches content to the document of that revision and returns
// the next one.
func (c *Client) PutAttachment(ctx context.Context, db, id, rev, name, contentType string, content []byte) (string, error) {
	return c.rev(c.do(ctx, request{
		method: http.MethodPut, path: []string{db, id, name}, query: url.Values{"rev": {rev}},
		body: content, contentType: contentType,
	}))
}

// Attachment reads the content of an attachment.
func (c *Client) Attachment(ctx context.Context, db, id, name string) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: []string{db, id, name}})
}

func (c *Client) rev(body []byte, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var answer struct {
		Rev string `json:"rev"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("decode database answer: %w", err)
	}
	return answer.Rev, nil
}
