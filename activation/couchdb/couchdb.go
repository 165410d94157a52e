// Package couchdb is the invoker's client of its database: it reads actions with
// their code, writes activation records, and polls which namespaces are
// blocked. It uses kivik, except for batches of records (bulk.go), and is the only
// package that imports that library; what it returns are types of package
// activation.
//
// It decides nothing about activations, and it never writes to the databases
// of actions and subjects.
//
// A Store owns its goroutines: the senders of records and the poller of the
// blacklist start in Open and end in Close, and one more runs for each action
// that is being fetched.
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

// Config is where the databases are and how hard they may be worked. Zero
// values of everything below Activations mean the defaults.
type Config struct {
	URL                           string // "http://host:5984", without credentials
	Username, Password            string
	Whisks, Subjects, Activations string // names of the databases; records go elsewhere without Activations

	BlacklistInterval time.Duration // between two polls; 5 minutes
	ReadTimeout       time.Duration // of one read; 30 s
	CacheBytes        int64         // of actions with their code; 64 MiB
	CacheIdle         time.Duration // after which an action is dropped; 5 minutes

	// Bucket reads the code of actions that is kept in S3; nil: none is.
	Bucket Bucket

	Records records.Config
	Log     *slog.Logger // nil: nothing is logged
	// Steps, when not nil, is called when a request begins, with OpenWhisk's name for it
	// and the documents of a batch. What it returns is called when the request has ended.
	Steps func(step string, documents int) (ended func(err error))
}

// withDefaults fills in what is zero.
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

// Bucket holds code that is not in the database.
type Bucket interface {
	// Read returns the attachment of a document, or that there is none.
	Read(ctx context.Context, document, name string) (data []byte, found bool, err error)
}

// Store is the database as the invoker sees it. It is safe for use by many
// goroutines.
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

// maxConnections is what the original allows itself.
const maxConnections = 128

// Open prepares a store and starts its goroutines. It asks nothing of the
// database: one that is away shows in Health.
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

// newTransport keeps connections open and leaves bodies as they are: CouchDB
// would compress text attachments for a client that accepts that.
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

// Action returns the action of a document id with its code in place. With a
// revision it is that one if the database still has it, else the latest; an
// empty revision means the latest, always read anew. The action is shared:
// callers must not change it.
//
// The error is, or wraps, ErrNotFound, activation.ErrIncompatible or
// activation.ErrUnfetchable, the latter with ErrUnavailable where the database, not the
// action, is the reason.
func (s *Store) Action(ctx context.Context, id, rev string) (*activation.Action, error) {
	return s.actions.get(ctx, id, rev)
}

// PutDocument hands over a record. It blocks while the buffer is full
// and there is no spool; then the caller should take on no more work. The
// error is the context's, the spool's, or ErrClosed.
func (s *Store) PutDocument(ctx context.Context, doc records.Document) error {
	return s.records.Put(ctx, doc)
}

// Cached returns the action of a revision if it is at hand; it never waits for
// the database.
func (s *Store) Cached(id, rev string) (*activation.Action, bool) { return s.actions.cached(id, rev) }

// Full reports whether PutDocument would block or spool now.
func (s *Store) Full() bool { return s.records.Full() }

// Flush waits until every record that was put is written or spooled.
func (s *Store) Flush(ctx context.Context) error { return s.records.Flush(ctx) }

// Blocked reports whether activations of a namespace are refused. Before the
// first poll succeeds none is.
func (s *Store) Blocked(namespace string) bool { return s.blacklist.blocked(namespace) }

// RefreshBlacklist polls the blacklist now.
func (s *Store) RefreshBlacklist(ctx context.Context) error { return s.blacklist.refresh(ctx) }

// Probe asks whether an invoker can work with the database: the credentials are
// accepted, the three databases are there, and records may be written. The error
// names the database and wraps ErrUnauthorized, ErrForbidden or ErrNoDatabase
// where that is it.
func (s *Store) Probe(ctx context.Context) error { return s.raw.probe(ctx) }

// AwaitReads waits until the database answers reads again, after Action returned
// ErrUnavailable. Any number may wait; one asks for all.
func (s *Store) AwaitReads(ctx context.Context) error { return s.actions.await(ctx) }

// Close ends every goroutine of the store. Records that are not written go to
// the spool; without one they are lost and counted in the error. Call Flush
// before.
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

// Health returns a snapshot.
func (s *Store) Health() Health {
	h := Health{Health: s.records.Health()}
	s.actions.health(&h)
	h.Blacklist = s.blacklist.health()
	return h
}

// steps reports requests, to nobody if it is nil.
type steps func(step string, documents int) (ended func(err error))

func (s steps) begin(step string, documents int) (ended func(err error)) {
	if s == nil {
		return func(error) {}
	}
	return s(step, documents)
}
