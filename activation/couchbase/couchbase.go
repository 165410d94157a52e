// Package couchbase is a sink for activation records: it inserts them into one
// collection of a Couchbase bucket, each under its document id. It reads nothing;
// actions stay in CouchDB. It speaks Couchbase's binary protocol through gocb and
// is the only package that imports that library.
package couchbase

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
)

// Config is where records go.
type Config struct {
	Connection         string // "couchbase://host[:port][,host...]", "couchbases://" with TLS
	Username, Password string
	Bucket             string
	Scope, Collection  string // empty: "_default"
	// Certificate is a PEM file of the authorities that sign the cluster's
	// certificates; empty means the system's.
	Certificate string

	Records records.Config
	Log     *slog.Logger // nil: nothing is logged
}

// Store is the sink. It is safe for use by many goroutines.
type Store struct {
	connection string      // connection string
	trust      *tls.Config // of its certificates
	cluster    *gocb.Cluster
	bucket     *gocb.Bucket
	collection *gocb.Collection
	queue      *records.Queue
	asks       sync.WaitGroup // requests that no caller waits for any more
}

// operationTime is how long the library tries one document, which it does again
// and again by itself while a node is away.
const operationTime = 5 * time.Second

// Open returns a store and starts its goroutines. It does not wait for the cluster;
// Health reports an unreachable cluster.
func Open(cfg Config) (*Store, error) {
	options := gocb.ClusterOptions{
		Authenticator:      gocb.PasswordAuthenticator{Username: cfg.Username, Password: cfg.Password},
		AppTelemetryConfig: gocb.AppTelemetryConfig{Disabled: true},
	}
	if cfg.Certificate != "" {
		pem, err := os.ReadFile(cfg.Certificate)
		if err != nil {
			return nil, fmt.Errorf("read Couchbase's certificates (whisk.gpu.couchbase.certificate): %w", err)
		}
		options.SecurityConfig.TLSRootCAs = x509.NewCertPool()
		if !options.SecurityConfig.TLSRootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read Couchbase's certificates (whisk.gpu.couchbase.certificate): %s holds none in PEM form", cfg.Certificate)
		}
	}
	cluster, err := gocb.Connect(cfg.Connection, options)
	if err != nil {
		return nil, fmt.Errorf("open Couchbase client for %q: %w", cfg.Connection, err)
	}
	s := &Store{connection: cfg.Connection, trust: &tls.Config{RootCAs: options.SecurityConfig.TLSRootCAs}, cluster: cluster, bucket: cluster.Bucket(cfg.Bucket)}
	s.collection = s.bucket.Scope(cmp.Or(cfg.Scope, "_default")).Collection(cmp.Or(cfg.Collection, "_default"))
	s.queue = records.Open(cfg.Records, "couchbase", s.write, cfg.Log)
	return s, nil
}

// PutDocument queues the document of a record. Without a spool it blocks while the
// buffer is full.
func (s *Store) PutDocument(ctx context.Context, doc records.Document) error {
	return s.queue.Put(ctx, doc)
}

// Flush waits until every record that was put is written or spooled.
func (s *Store) Flush(ctx context.Context) error { return s.queue.Flush(ctx) }

// Health returns a snapshot.
func (s *Store) Health() records.Health { return s.queue.Health() }

// Close ends every goroutine of the store. Records that are not written go to
// the spool; without one they are lost and counted in the error. Call Flush
// before.
func (s *Store) Close() error {
	err := s.queue.Close()
	if closed := s.cluster.Close(nil); closed != nil {
		err = errors.Join(err, fmt.Errorf("close Couchbase client: %w", closed))
	}
	s.asks.Wait()
	return err
}

// probeID is a key that no record has: an activation's id follows its last slash.
const probeID = "gpuwhisk/probe"

// Probe asks whether records can be written: the cluster answers, accepts the
// credentials, has the collection, and lets the user write. It does so by
// removing a document that is not there.
func (s *Store) Probe(ctx context.Context) error {
	err := s.bucket.WaitUntilReady(operationTime, &gocb.WaitUntilReadyOptions{
		ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}, Context: ctx, RetryStrategy: once{},
	})
	if err != nil {
		return fmt.Errorf("reach bucket %s: %w%s", s.bucket.Name(), err, s.settings(ctx, err))
	}
	_, err = s.collection.Remove(probeID, &gocb.RemoveOptions{Timeout: operationTime, Context: ctx})
	if err != nil && !errors.Is(err, gocb.ErrDocumentNotFound) {
		return fmt.Errorf("probe bucket %s, collection %s.%s: %w%s", s.bucket.Name(), s.collection.ScopeName(), s.collection.Name(), err, s.settings(ctx, err))
	}
	return nil
}

// once makes the library return at once why something failed.
type once struct{}

// RetryAfter never tries again.
func (once) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.NoRetryRetryAction{}
}
