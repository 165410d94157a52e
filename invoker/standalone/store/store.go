// Package store is a small document database in one file that speaks the part
// of CouchDB's HTTP API that OpenWhisk uses: documents with revisions,
// attachments, _bulk_docs, _all_docs and the views of an OpenWhisk deployment,
// computed natively. It exists so that the standalone command and the invoker
// talk to their database the way they do in production, with nothing to
// install.
//
// It is not a CouchDB: it keeps no revision trees, replicates nothing and runs
// no JavaScript. A design document can be stored; its views answer only when
// they are among those listed in view.go.
//
// One goroutine, started by Open and ended by Close, commits what the requests
// hand it; a request returns after its change is on disk.
package store

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Config says where a store lives and who may use it.
type Config struct {
	// Path is the database file; its directory is created.
	Path string
	// User and Password guard every request by basic authentication. An empty
	// user lets everybody in.
	User, Password string
	// Log gets what went wrong; nil discards it.
	Log *slog.Logger
}

// Store is an open database. It serves HTTP from many goroutines at once.
type Store struct {
	cfg    Config
	log    *slog.Logger
	db     *bolt.DB
	writes chan write
	quit   chan struct{}
	done   chan struct{}
}

// lockWait is how long Open waits for another process to let go of the file.
const lockWait = 2 * time.Second

// Open opens or creates the database file.
func Open(cfg Config) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(cfg.Path), 0o700); err != nil {
		return nil, fmt.Errorf("create store directory: %w", err)
	}
	db, err := bolt.Open(cfg.Path, 0o600, &bolt.Options{
		Timeout:      lockWait,
		FreelistType: bolt.FreelistMapType,
	})
	if err != nil {
		return nil, fmt.Errorf("open store %s (is another process using it?): %w", cfg.Path, err)
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		cfg: cfg, log: log, db: db,
		// Unbuffered would serialise hand-over and commit; the buffer lets the
		// writer find the requests that arrived during the last commit.
		writes: make(chan write, maxGroup),
		quit:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	go s.commitLoop()
	return s, nil
}

// Close commits what was handed over, ends the writer and closes the file.
// Requests that come later fail.
func (s *Store) Close() error {
	close(s.quit)
	<-s.done
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
