// Package elasticsearch is a sink for activation records: it indexes them as
// OpenWhisk's ElasticSearchActivationStore does, so that its controllers find
// them there. It reads none; actions stay in CouchDB. It is the only package that
// imports Elasticsearch's client.
//
// Of that client it takes the transport and the requests by themselves: the
// whole client asks each server for its licence first, which OpenWhisk's own,
// of version 6, does not have.
package elasticsearch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/elastic/go-elasticsearch/v7/esapi"
	"github.com/elastic/go-elasticsearch/v7/estransport"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
)

// Config is where records go.
type Config struct {
	Protocol           string   // "http" or "https"
	Hosts              []string // host:port
	Username, Password string   // empty: no login
	// Index is the pattern of the index's name; see Pattern.
	Index string
	// KeepAlive is how long an idle connection stays open.
	KeepAlive time.Duration
	// Certificate is a PEM file of the authorities that sign the servers'
	// certificates; empty means the system's.
	Certificate string

	Records records.Config
	Log     *slog.Logger // nil: nothing is logged
}

// Store is the sink. It is safe for use by many goroutines.
type Store struct {
	client *estransport.Client
	pool   *http.Transport
	index  Pattern
	queue  *records.Queue
	// typed is whether documents need a type: nil until a server sent its
	// version.
	typed atomic.Pointer[bool]
}

// Open returns a store and starts its goroutines. It does not wait for a server; Health
// reports an unreachable one.
func Open(cfg Config) (*Store, error) {
	index, err := parsePattern(cfg.Index)
	if err != nil {
		return nil, err
	}
	pool, err := transport(cfg)
	if err != nil {
		return nil, err
	}
	var urls []*url.URL
	for _, host := range cfg.Hosts {
		urls = append(urls, &url.URL{Scheme: cfg.Protocol, Host: host})
	}
	if len(urls) == 0 {
		return nil, errors.New("open Elasticsearch client: no hosts")
	}
	client, err := estransport.New(estransport.Config{
		URLs: urls, Username: cfg.Username, Password: cfg.Password,
		Transport: pool, DisableMetaHeader: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open Elasticsearch client: %w", err)
	}
	s := &Store{client: client, pool: pool, index: index}
	s.queue = records.Open(cfg.Records, "elasticsearch", s.write, cfg.Log)
	return s, nil
}

func transport(cfg Config) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil // as with CouchDB, requests go directly to it
	t.IdleConnTimeout = cmp.Or(cfg.KeepAlive, t.IdleConnTimeout)
	if cfg.Certificate == "" {
		return t, nil
	}
	pem, err := os.ReadFile(cfg.Certificate)
	if err != nil {
		return nil, fmt.Errorf("read Elasticsearch's certificates (whisk.gpu.elasticsearch.certificate): %w", err)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read Elasticsearch's certificates (whisk.gpu.elasticsearch.certificate): %s holds none in PEM form", cfg.Certificate)
	}
	return t, nil
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
	s.pool.CloseIdleConnections()
	return err
}

// mostInfo bounds a server's description of itself, which is some 500 bytes.
const mostInfo = 64 << 10

// Probe checks that a server answers and accepts the credentials. Whether the
// user may write shows with the first record.
func (s *Store) Probe(ctx context.Context) error {
	res, err := esapi.InfoRequest{}.Do(ctx, s.client)
	if err != nil {
		return fmt.Errorf("reach Elasticsearch: %w%s", err, settings(err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, mostInfo))
	if err != nil {
		return fmt.Errorf("read Elasticsearch's description of itself: %w", err)
	}
	if err := refusal(res.StatusCode, body); err != nil {
		return fmt.Errorf("ask Elasticsearch for its version: %w", err)
	}
	var info struct {
		Version struct{ Number, Distribution string }
	}
	var major string
	if err := json.Unmarshal(body, &info); err == nil {
		major, _, _ = strings.Cut(info.Version.Number, ".")
	}
	n, err := strconv.Atoi(major)
	if err != nil {
		return errors.New("ask Elasticsearch for its version: the answer names none; does something else listen there?")
	}
	// Types became optional in version 7 and went with version 8. OpenSearch
	// began at 1 and never had them.
	typed := info.Version.Distribution == "" && n < 7
	s.typed.Store(&typed)
	return nil
}

// needsType reports whether documents need a type, by one request to a server.
func (s *Store) needsType(ctx context.Context) (bool, error) {
	if s.typed.Load() == nil {
		if err := s.Probe(ctx); err != nil {
			return false, err
		}
	}
	return *s.typed.Load(), nil
}
