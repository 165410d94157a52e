// Package couchdb is the invoker's client of its database. It reads actions with their
// code, writes activation records, and polls the list of blocked namespaces. It uses
// kivik, except for batches of records (bulk.go), and is the only importer of that
// library. It returns types of package activation.
//
// The package makes no decisions about activations, and never writes to the databases of
// actions and subjects.
//
// A Store owns its goroutines. The senders of records and the poller of the blacklist
// start in Open and end in Close. Each fetch of an action has another goroutine.
package couchdb

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-kivik/kivik/v4"
	"github.com/go-kivik/kivik/v4/couchdb"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Config sets the address of the databases and the limits of their use. Zero values of
// the fields below Activations mean the defaults.
type Config struct {
	URL                           string // "http://host:5984", without credentials
	Username, Password            string
	Whisks, Subjects, Activations string // names of the databases; Activations is empty if records go to another store

	BlacklistInterval time.Duration // between two polls; default 5 minutes
	ReadTimeout       time.Duration // of one read; default 30 s
	CacheBytes        int64         // of actions with their code; default 64 MiB
	CacheIdle         time.Duration // after which an unused action is dropped; default 5 minutes

	// Bucket reads the code of actions in S3. It may be nil.
	Bucket Bucket

	Records records.Config
	Log     *slog.Logger // nil: discard
	// Steps is called when a request begins, with OpenWhisk's name for the request and
	// the number of documents in a batch. The returned function is called when the
	// request has ended. Steps may be nil.
	Steps func(step string, documents int) (ended func(err error))
}

// withDefaults replaces zero values by the defaults.
func (c Config) withDefaults() Config {
	c.BlacklistInterval = cmp.Or(c.BlacklistInterval, 5*time.Minute)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 30*time.Second)
	c.CacheBytes = cmp.Or(c.CacheBytes, 64<<20)
	c.CacheIdle = cmp.Or(c.CacheIdle, 5*time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Bucket stores code outside of the database.
type Bucket interface {
	// Read returns the attachment of a document. found is false if it does not exist.
	Read(ctx context.Context, document, name string) (data []byte, found bool, err error)
}

// Store is the invoker's access to the database. It is safe for concurrent use.
type Store struct {
	actions   *actions
	records   *records.Queue
	blacklist *blacklist
	raw       rawClient
	client    *kivik.Client
	transport *http.Transport
	stop      context.CancelFunc
	wg        sync.WaitGroup
}

// maxConnections is OpenWhisk's limit.
const maxConnections = 128

// Open creates a store and starts its goroutines. It sends no request; Health shows an
// unreachable database.
func Open(cfg Config, manifest *activation.Manifest) (*Store, error) {
	cfg = cfg.withDefaults()
	transport := newTransport()
	client, err := dial(cfg, transport)
	if err != nil {
		return nil, err
	}
	whisks := client.DB(cfg.Whisks)
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{client: client, transport: transport, stop: stop}
	s.actions = newActions(ctx, whisks, manifest, cfg)
	s.raw = rawClient{cfg: cfg, client: &http.Client{Transport: transport}}
	s.records = records.Open(cfg.Records, "couchdb", bulkDocs(s.raw, cfg.Steps), cfg.Log)
	s.blacklist = newBlacklist(client.DB(cfg.Subjects), cfg)
	s.wg.Go(func() { s.blacklist.run(ctx) })
	return s, nil
}

func dial(cfg Config, transport http.RoundTripper) (*kivik.Client, error) {
	options := []kivik.Option{
		couchdb.OptionHTTPClient(&http.Client{Transport: transport}),
		couchdb.OptionNoRequestCompression(),
	}
	if cfg.Username != "" {
		options = append(options, couchdb.BasicAuth(cfg.Username, cfg.Password))
	}
	client, err := kivik.New("couch", cfg.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("open couchdb client: %w", err)
	}
	return client, nil
}

// newTransport returns a transport that keeps connections open and requests no
// compression. CouchDB would otherwise compress text attachments.
func newTransport() *http.Transport {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		MaxConnsPerHost:     maxConnections,
		MaxIdleConnsPerHost: maxConnections,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression:  true,
	}
}

// Action returns the action of a document id with its code. With a revision it returns
// that revision, or the latest if the database no longer has it. An empty revision means
// the latest, which is always read from the database. The action is shared: callers must
// not change it.
//
// The error wraps ErrNotFound, activation.ErrIncompatible or activation.ErrUnfetchable.
// The latter also wraps ErrUnavailable if the database, not the action, is the reason.
func (s *Store) Action(ctx context.Context, id, rev string) (*activation.Action, error) {
	return s.actions.get(ctx, id, rev)
}

// PutDocument enqueues a record. It blocks while the buffer is full and there is no
// spool; the caller should accept no more work then. The error is the context's, the
// spool's, or ErrClosed.
func (s *Store) PutDocument(ctx context.Context, doc records.Document) error {
	return s.records.Put(ctx, doc)
}

// Cached returns the action of a revision if it is cached. It never waits for the
// database.
func (s *Store) Cached(id, rev string) (*activation.Action, bool) { return s.actions.cached(id, rev) }

// Full reports whether PutDocument would block or use the spool now.
func (s *Store) Full() bool { return s.records.Full() }

// Flush blocks until every enqueued record is written or spooled.
func (s *Store) Flush(ctx context.Context) error { return s.records.Flush(ctx) }

// Blocked reports whether activations of a namespace are refused. Until the first
// successful poll it returns false.
func (s *Store) Blocked(namespace string) bool { return s.blacklist.blocked(namespace) }

// RefreshBlacklist polls the blacklist now.
func (s *Store) RefreshBlacklist(ctx context.Context) error { return s.blacklist.refresh(ctx) }

// Probe checks that an invoker can work with the database: the credentials are accepted,
// the three databases exist, and records may be written. The error names the database,
// and wraps ErrUnauthorized, ErrForbidden or ErrNoDatabase if that is the reason.
func (s *Store) Probe(ctx context.Context) error { return s.raw.probe(ctx) }

// AwaitReads blocks until the database answers reads again, after Action returned
// ErrUnavailable. Any number of callers share one probe.
func (s *Store) AwaitReads(ctx context.Context) error { return s.actions.await(ctx) }

// Close ends every goroutine of the store. Unwritten records go to the spool; without a
// spool they are lost, and the error counts them. Call Flush before.
func (s *Store) Close() error {
	s.stop()
	s.actions.close()
	err := s.records.Close()
	s.wg.Wait()
	s.transport.CloseIdleConnections()
	return err
}

// Health is the state of the database.
type Health struct {
	Reads     retry.Condition `json:"reads"` // of actions
	Blacklist retry.Condition `json:"blacklist"`
	records.Health
	Cache CacheStats `json:"cache"`
}

// OK reports whether the last request of each kind succeeded.
func (h Health) OK() bool {
	return h.Reads.OK() && h.Blacklist.OK() && h.Health.OK()
}

// Health returns the current state.
func (s *Store) Health() Health {
	h := Health{Health: s.records.Health()}
	s.actions.health(&h)
	h.Blacklist = s.blacklist.health()
	return h
}

// steps reports requests. If it is nil, begin does nothing.
type steps func(step string, documents int) (ended func(err error))

func (s steps) begin(step string, documents int) (ended func(err error)) {
	if s == nil {
		return func(error) {}
	}
	return s(step, documents)
}
