// Package store is a small document database in one file. It implements the part of
// CouchDB's HTTP API that the standalone controller and the invoker use: documents with
// revisions, attachments, _bulk_docs, and the views of an OpenWhisk deployment, computed
// natively. Controller and invoker use it like the database of a production system,
// and nothing has to be installed.
//
// The package does not keep revision trees, does not replicate and does not run
// JavaScript. A design document can be stored, but only the views in view.go are
// answered.
//
// It starts no goroutines. A request that changes a document returns after the change is
// on disk.
package store

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Config is the file of a store and its user.
type Config struct {
	// Path is the database file; its directory is created.
	Path string
	// User and Password guard every request by basic authentication. An empty
	// user admits all requests.
	User, Password string
	// Log receives errors; nil discards them.
	Log *slog.Logger
}

// Store is an open database. It serves HTTP from many goroutines at once.
type Store struct {
	cfg Config
	db  *bolt.DB
	mux *http.ServeMux
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
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open store: another process has %s open: stop it, or use another directory (--data)", cfg.Path)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", cfg.Path, err)
	}
	db.MaxBatchDelay = batchDelay
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: cfg, db: db}
	s.route()
	return s, nil
}

// Close waits for the current commit and closes the file. Later requests fail.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
