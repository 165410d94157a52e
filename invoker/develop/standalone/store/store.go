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
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
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
	if err != nil {
		return nil, fmt.Errorf("open store %s (is another process using it?): %w", cfg.Path, err)
	}
	db.MaxBatchDelay = batchDelay
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: cfg, db: db}
	s.route()
	return s, nil
}

// Close ends after what is being committed and closes the file. Requests that
// come later fail.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
