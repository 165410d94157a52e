package couchdb

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kivik/kivik/v4"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// blacklist is the set of namespaces whose activations are refused. A failed poll leaves
// the set unchanged.
type blacklist struct {
	cfg      Config
	db       *kivik.DB
	interval time.Duration
	timeout  time.Duration
	log      *slog.Logger
	steps    steps
	set      atomic.Pointer[map[string]struct{}]

	mu        sync.Mutex
	condition retry.Condition
	read      bool // at least once
}

func newBlacklist(db *kivik.DB, cfg Config) *blacklist {
	b := &blacklist{cfg: cfg, db: db, interval: cfg.BlacklistInterval, timeout: cfg.ReadTimeout, log: cfg.Log, steps: cfg.Steps}
	b.set.Store(&map[string]struct{}{})
	return b
}

func (b *blacklist) blocked(namespace string) bool {
	_, ok := (*b.set.Load())[namespace]
	return ok
}

// run polls immediately and then at the interval.
func (b *blacklist) run(ctx context.Context) {
	ticker := time.NewTicker(b.interval)
	defer ticker.Stop()
	for {
		_ = b.refresh(ctx) // Health and the log have the error
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *blacklist) refresh(ctx context.Context) error {
	set, err := b.poll(ctx)
	err = b.cfg.explain(err, b.cfg.Subjects)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			b.condition.Failed(b.log, "the list of blocked namespaces cannot be read", err)
		}
		return fmt.Errorf("poll blocked namespaces: %w", err)
	}
	b.condition.Succeeded(b.log, "the list of blocked namespaces is read again")
	if before := b.set.Swap(&set); !b.read || !maps.Equal(*before, set) {
		b.log.Info(fmt.Sprintf("updated blacklist to %d entries", len(set))) // OpenWhisk's words
	}
	b.read = true
	return nil
}

// poll reads the same view as OpenWhisk, with the same parameters.
func (b *blacklist) poll(ctx context.Context) (set map[string]struct{}, err error) {
	ended := b.steps.begin("database_queryView", 0)
	defer func() { ended(err) }()
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	rows := b.db.Query(ctx, "namespaceThrottlings", "blockedNamespaces",
		kivik.Param("stale", "update_after"), kivik.Param("descending", true), kivik.Param("reduce", false))
	defer func() { _ = rows.Close() }()
	set = map[string]struct{}{}
	for rows.Next() {
		var namespace string
		if err := rows.ScanKey(&namespace); err != nil {
			return nil, err
		}
		set[namespace] = struct{}{}
	}
	return set, rows.Err()
}

func (b *blacklist) health() retry.Condition {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.condition
}
