// Package couchdb is the standalone controller's client of its database, embedded or
// external, on top of kivik. It stores entities, the code of actions as attachments, and
// the records of activations. It also creates the missing parts of an OpenWhisk
// deployment: databases, design documents and subjects.
//
// The invoker's package for the same database, activation/couchdb, reads actions and
// writes records; this package writes actions and reads records. It starts no
// goroutines. A Client is safe for concurrent use.
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

	"github.com/go-kivik/kivik/v4"
	"github.com/go-kivik/kivik/v4/couchdb"
)

// Errors that callers act upon.
var (
	ErrNotFound = errors.New("document not found")
	ErrConflict = errors.New("document update conflict")
)

// Names are the three databases of an OpenWhisk deployment.
type Names struct{ Whisks, Activations, Subjects string }

// Config is the address of the database.
type Config struct {
	URL            string // http://host:port, without credentials
	User, Password string
	Names          Names
}

// Client reads and writes the databases of one server.
type Client struct {
	names     Names
	client    *kivik.Client
	transport *http.Transport
}

// connections is the number of concurrent requests; further requests wait. OpenWhisk's
// controller allows 128. On one machine 64 saturate a database.
const connections = 64

// New makes a client; it connects when it is first used.
func New(cfg Config) (*Client, error) {
	c := &Client{names: cfg.Names, transport: &http.Transport{
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		MaxConnsPerHost:     connections,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}}
	var err error
	c.client, err = kivik.New("couch", strings.TrimRight(cfg.URL, "/"), couchdb.BasicAuth(cfg.User, cfg.Password),
		couchdb.OptionHTTPClient(&http.Client{Transport: c.transport}), couchdb.OptionNoRequestCompression())
	if err != nil {
		return nil, fmt.Errorf("open couchdb client: %w", err)
	}
	return c, nil
}

// Names are the databases the client works on.
func (c *Client) Names() Names { return c.names }

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// translate gives the errors that callers act upon.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case kivik.HTTPStatus(err) == http.StatusNotFound:
		return ErrNotFound
	case kivik.HTTPStatus(err) == http.StatusConflict:
		return ErrConflict
	}
	return fmt.Errorf("ask database: %w", err)
}

// Get reads a document.
func (c *Client) Get(ctx context.Context, db, id string) ([]byte, error) {
	var doc json.RawMessage
	got := c.client.DB(db).Get(ctx, id, couchdb.OptionNoMultipartGet())
	defer got.Close() // the end of a chunked answer is not read with the document
	err := got.ScanDoc(&doc)
	return doc, translate(err)
}

// Put writes a document, whose _rev must be that of the one it replaces, and
// returns its new revision.
func (c *Client) Put(ctx context.Context, db, id string, doc []byte) (string, error) {
	rev, err := c.client.DB(db).Put(ctx, id, json.RawMessage(doc), couchdb.OptionNoMultipartPut())
	return rev, translate(err)
}

// Delete removes a document with the given revision.
func (c *Client) Delete(ctx context.Context, db, id, rev string) error {
	_, err := c.client.DB(db).Delete(ctx, id, rev)
	return translate(err)
}

// escape makes an attachment's name the segment of a path that kivik takes it
// for.
func escape(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "+", "%20") }

// PutAttachment attaches content to the document with the given revision and returns the
// document's next revision.
func (c *Client) PutAttachment(ctx context.Context, db, id, rev, name, contentType string, content []byte) (string, error) {
	rev, err := c.client.DB(db).PutAttachment(ctx, id, &kivik.Attachment{
		Filename: escape(name), ContentType: contentType, Content: io.NopCloser(bytes.NewReader(content)),
	}, kivik.Rev(rev))
	return rev, translate(err)
}

// Query selects the rows of a view with keys [Prefix, From] to [Prefix, To],
// newest first. The views of a deployment are keyed by namespace and time.
type Query struct {
	DB, Design, View string
	Prefix           string
	From             int64
	To               int64 // 0: no upper end
	Skip, Limit      int   // Limit 0: all
	Docs             bool  // whole documents instead of summaries
}

// rows asks a view for the rows in range, and calls fn with each.
func (c *Client) rows(ctx context.Context, q Query, params map[string]any, fn func(*kivik.ResultSet) error) error {
	var top any = map[string]any{} // an object sorts above every number
	if q.To > 0 {
		top = q.To
	}
	params["startkey"], params["endkey"], params["descending"] = []any{q.Prefix, top}, []any{q.Prefix, q.From}, true
	return c.each(ctx, q.DB, q.Design, q.View, params, fn)
}

// Rows returns the summaries, or the documents, of the rows in range.
func (c *Client) Rows(ctx context.Context, q Query) ([]json.RawMessage, error) {
	params := map[string]any{"reduce": false, "include_docs": q.Docs, "skip": q.Skip}
	if q.Limit > 0 {
		params["limit"] = q.Limit
	}
	scan := (*kivik.ResultSet).ScanValue
	if q.Docs {
		scan = (*kivik.ResultSet).ScanDoc
	}
	all := []json.RawMessage{}
	err := c.rows(ctx, q, params, func(row *kivik.ResultSet) error {
		var one json.RawMessage
		err := scan(row, &one)
		all = append(all, one)
		return err
	})
	return all, err
}

// Count returns how many rows are in range, skipped ones and those past the limit
// included.
func (c *Client) Count(ctx context.Context, q Query) (n int, err error) {
	err = c.rows(ctx, q, map[string]any{}, func(row *kivik.ResultSet) error { return row.ScanValue(&n) })
	return n, err
}

// each calls fn with the rows of a view.
func (c *Client) each(ctx context.Context, db, design, view string, params map[string]any, fn func(*kivik.ResultSet) error) error {
	rows := c.client.DB(db).Query(ctx, design, view, kivik.Params(params))
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return fmt.Errorf("read view %s: %w", view, err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("query view %s: %w", view, translate(err))
	}
	return nil
}
