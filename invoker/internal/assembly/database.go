package assembly

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/s3"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// stores has the databases.
type stores struct {
	*base
	state *state
	store *couchdb.Store
	// records is the store of records; nil where that is CouchDB.
	records clients.Store
	bucket  *bucket // nil: no code is in S3
}

// open opens the database, waits until it accepts the credentials and records,
// and has its databases, and reads the blocked namespaces: before that no activation
// could be served, and controllers must not send any.
func (db *stores) open(ctx context.Context, manifest *activation.Manifest) (hooks, error) {
	store, err := couchdb.Open(db.databaseConfig(), manifest)
	if err != nil {
		return hooks{}, err
	}
	db.store = store
	h := hooks{flush: store.Flush, close: closer(store.Close), status: db.addStatus, gauges: storeGauges}
	if err := db.await(ctx, "CouchDB", store.Probe, anyError); err != nil {
		return h, err
	}
	db.refuseBlocked(ctx)
	return h, nil
}

func (db *stores) addStatus(s *status) {
	h := db.store.Health()
	s.CouchDB = h
	s.because("reading actions", h.Reads.LastError)
	s.because("writing records", h.Writes.LastError)
	s.because("spooling records", h.Spool.LastError)
	s.because("reading the blacklist", h.Blacklist.LastError)
}

func storeGauges(s *status, m sink) {
	const name, help = "couchdb_cache_total", "Actions that were looked up, by whether the cache had them."
	m.counter(name, help, float64(s.CouchDB.Cache.Hits), label{"outcome", "hit"})
	m.counter(name, help, float64(s.CouchDB.Cache.Misses), label{"outcome", "miss"})
	recordGauges(s.CouchDB.Health, m)
}

// await tries to use a peer until that succeeds. An error for which away returns false ends
// the start.
func (b *base) await(ctx context.Context, peer string, try func(context.Context) error, away func(error) bool) error {
	tries := retry.New(b.Log, "start, which needs "+peer+",")
	for {
		err := try(ctx)
		if err == nil {
			tries.Succeeded()
			return nil
		}
		if !away(err) {
			return err
		}
		b.stage.Store("waiting for " + peer + ": " + err.Error())
		if !tries.Wait(ctx, err) {
			return fmt.Errorf("wait for %s: %w", peer, err)
		}
	}
}

// anyError treats every error as a store that is away: a refused login may be put right there.
func anyError(error) bool { return true }

// refuseBlocked reads which namespaces are blocked before the first activation is read, so
// that none of these namespaces can run anything. A database that does not answer delays the
// start by at most blockedTime.
func (db *stores) refuseBlocked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, blockedTime)
	defer cancel()
	_ = db.store.RefreshBlacklist(ctx) // its health shows the error; it is read again
}

// readTries is how often an action is read while the database answers other
// requests.
const readTries = 4

// actions translates the store's errors into the invoker's, and waits for a
// store that is away.
type actions struct{ *couchdb.Store }

func (a actions) Action(ctx context.Context, id, revision string) (*activation.Action, error) {
	found, err := a.Store.Action(ctx, id, revision)
	// A database that answers other requests is not away.
	for try := 1; try < readTries && errors.Is(err, couchdb.ErrUnavailable); try++ {
		if gone := a.Store.AwaitReads(ctx); gone != nil {
			return nil, fmt.Errorf("%w (%w)", err, gone)
		}
		found, err = a.Store.Action(ctx, id, revision)
	}
	if errors.Is(err, couchdb.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", invoker.ErrNotFound, err)
	}
	return found, err
}

// bucket is code in S3, with the error of its last read.
type bucket struct {
	store   *s3.Store
	trouble atomic.Value // string
}

// Read implements couchdb.Bucket.
func (b *bucket) Read(ctx context.Context, document, name string) ([]byte, bool, error) {
	data, found, err := b.store.Read(ctx, document, name)
	if err == nil || ctx.Err() == nil {
		b.setTrouble(err)
	}
	return data, found, err
}

func (b *bucket) setTrouble(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	b.trouble.Store(text)
}

// why returns the error of the last read, or "".
func (b *bucket) why() string {
	why, _ := b.trouble.Load().(string)
	return why
}

// probeTime bounds the probe of the bucket at the start.
const probeTime = 5 * time.Second

// openBucket opens the S3 bucket if code is kept in S3, and probes it once. It does not wait
// for the bucket, because actions whose code is in the database do not need it.
func (db *stores) openBucket(ctx context.Context) (hooks, error) {
	store, err := clients.Bucket(db.c)
	if err != nil || store == nil {
		return hooks{}, err
	}
	db.bucket = &bucket{store: store}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := store.Probe(ctx); err != nil && !s3.Denied(err) {
		db.bucket.setTrouble(err)
		db.Log.Warn("code in S3 cannot be read", "error", err)
	}
	return hooks{close: closer(func() error { store.Close(); return nil }), status: func(s *status) {
		s.Bucket = db.bucket.why()
		s.because("reading code from S3", s.Bucket)
	}}, nil
}
