package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-kivik/kivik/v4"
	"github.com/go-kivik/kivik/v4/couchdb"
	"github.com/go-kivik/kivik/v4/couchdb/chttp"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// ErrNotFound means that the database does not have the action, or its code.
var ErrNotFound = errors.New("action not found")

// ErrUnavailable means that the database does not answer, or answers wrongly. A later
// try may succeed.
var ErrUnavailable = errors.New("the database is away")

// errNoCode means that the code which a document names does not exist.
var errNoCode = errors.New("its code is missing")

// actions reads and caches actions by id and revision. Concurrent readers of the same
// action share one request.
type actions struct {
	cfg      Config
	db       *kivik.DB
	bucket   Bucket
	manifest *activation.Manifest
	timeout  time.Duration
	log      *slog.Logger
	steps    steps
	ctx      context.Context // ends with the store; a fetch continues after its first caller has gone
	wg       sync.WaitGroup

	mu        sync.Mutex
	cache     *cache
	flights   map[key]*flight
	closed    bool
	condition retry.Condition
	replaced  map[key]replacement
	recovered chan struct{} // not nil while a probe checks reads; closed afterwards
}

// replacement is the revision that replaced another. It is remembered briefly; without
// it, each further message with the old revision would read the action again.
type replacement struct {
	rev   string
	until time.Time
}

// replacedFor limits how late a second update may be noticed.
const replacedFor = 5 * time.Second

// key names one version of an action. A version never changes, so a cached action is
// never stale.
type key struct{ id, rev string }

// flight is one fetch, for which any number of readers may wait.
type flight struct {
	done   chan struct{} // closed after the fields below are set
	action *activation.Action
	err    error
}

func newActions(ctx context.Context, db *kivik.DB, m *activation.Manifest, cfg Config) *actions {
	return &actions{
		cfg: cfg, db: db, bucket: cfg.Bucket, manifest: m, timeout: cfg.ReadTimeout, log: cfg.Log, steps: cfg.Steps, ctx: ctx,
		cache:   newCache(cfg.CacheBytes, cfg.CacheIdle),
		flights: map[key]*flight{}, replaced: map[key]replacement{},
	}
}

func (a *actions) get(ctx context.Context, id, rev string) (*activation.Action, error) {
	f, err := a.join(ctx, key{id, rev})
	if err != nil {
		return nil, err
	}
	select {
	case <-f.done:
		return f.action, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s: %w", activation.ErrUnfetchable, id, ctx.Err())
	}
}

// cached returns an action from the cache. It never reads the database.
func (a *actions) cached(id, rev string) (*activation.Action, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	return a.cache.get(a.current(key{id, rev}, now), now)
}

// current returns the key of the known replacement of k, or k. The caller must hold mu.
func (a *actions) current(k key, now time.Time) key {
	if r, ok := a.replaced[k]; ok {
		if now.Before(r.until) {
			return key{k.id, r.rev}
		}
		delete(a.replaced, k)
	}
	return k
}

// replace records that rev replaced k. The caller must hold mu.
func (a *actions) replace(k key, rev string, now time.Time) {
	for old, r := range a.replaced {
		if !now.Before(r.until) {
			delete(a.replaced, old)
		}
	}
	a.replaced[k] = replacement{rev, now.Add(replacedFor)}
}

// join returns the flight of a key, which is already done if the action is cached. It
// starts a flight if there is none. An empty revision always starts a new flight,
// because it means the latest version in the database.
func (a *actions) join(caller context.Context, k key) (*flight, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, fmt.Errorf("%w: %w", activation.ErrUnfetchable, records.ErrClosed)
	}
	if k.rev != "" {
		now := time.Now()
		if action, ok := a.cache.get(a.current(k, now), now); ok {
			f := &flight{done: make(chan struct{}), action: action}
			close(f.done)
			return f, nil
		}
		if f, ok := a.flights[k]; ok {
			return f, nil
		}
	}
	f := &flight{done: make(chan struct{})}
	if k.rev != "" {
		a.flights[k] = f
	}
	a.wg.Go(func() { a.fly(a.ctx, k, f) })
	return f, nil
}

func (a *actions) fly(ctx context.Context, k key, f *flight) {
	action, size, err := a.fetch(ctx, k)
	a.mu.Lock()
	defer a.mu.Unlock()
	f.action, f.err = action, err
	close(f.done)
	if k.rev != "" {
		delete(a.flights, k)
	}
	if err == nil {
		// Cache it by its own revision, which differs from the requested one after a
		// mismatch.
		now := time.Now()
		a.cache.put(key{k.id, action.Rev}, action, size, now)
		if k.rev != "" && action.Rev != k.rev {
			a.replace(k, action.Rev, now)
		}
		a.answered()
	}
}

// fetch reads the document, whatever its revision, and its code. A controller replaces
// the document and the code one after the other, so missing code is read again a moment
// later.
func (a *actions) fetch(ctx context.Context, k key) (action *activation.Action, size int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	for try := 1; ; try++ {
		action, size, err = a.read(ctx, k)
		if !errors.Is(err, errNoCode) || try == readTries || !pause(ctx, try) {
			return action, size, err
		}
	}
}

func (a *actions) read(ctx context.Context, k key) (*activation.Action, int64, error) {
	doc, err := retried(ctx, func() ([]byte, error) { return a.document(ctx, k.id) })
	if err != nil {
		return nil, 0, a.failed(k.id, err)
	}
	action, err := activation.DecodeAction(doc, a.manifest)
	if err != nil {
		return nil, 0, fmt.Errorf("fetch action %s: %w", k.id, err)
	}
	if k.rev != "" && action.Rev != k.rev {
		a.log.Info("action was updated since it was invoked, running the latest",
			"action", k.id, "wanted", k.rev, "found", action.Rev)
	}
	if at := action.Exec.Attachment; at != nil {
		if at.Scheme == activation.InS3 && a.bucket == nil {
			return nil, 0, fmt.Errorf("fetch action %s: %w: its code is in S3, which is not configured "+
				"(whisk.spi.AttachmentStoreProvider)", k.id, activation.ErrUnfetchable)
		}
		code, err := retried(ctx, func() ([]byte, error) { return a.attachment(ctx, k.id, at) })
		if err != nil {
			return nil, 0, a.failed(k.id, err)
		}
		action.Exec = action.Exec.WithCode(code)
	}
	return action, sizeOf(action, doc), nil
}

func (a *actions) document(ctx context.Context, id string) ([]byte, error) {
	ended := a.steps.begin("database_getDocument", 0)
	var doc json.RawMessage
	err := a.db.Get(ctx, id, couchdb.OptionNoMultipartGet()).ScanDoc(&doc)
	if missing(err) { // a missing document is a proper answer
		ended(nil)
	} else {
		ended(err)
	}
	return doc, err
}

func (a *actions) attachment(ctx context.Context, id string, from *activation.Attachment) (data []byte, err error) {
	if from.Scheme == activation.InS3 {
		data, found, err := a.bucket.Read(ctx, id, from.Name)
		if err == nil && !found {
			err = errNoCode
		}
		return data, err
	}
	ended := a.steps.begin("database_getDocumentAttachment", 0)
	defer func() { ended(err) }()
	escaped := strings.ReplaceAll(url.QueryEscape(from.Name), "+", "%20")
	at, err := a.db.GetAttachment(ctx, id, escaped)
	if missing(err) {
		err = errNoCode
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = at.Content.Close() }()
	data, err = io.ReadAll(at.Content)
	if err == nil && at.Size >= 0 && int64(len(data)) != at.Size {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}

// missing reports whether an error is the database's answer that the requested document
// does not exist. A proxy in front of the database also answers 404, and so does a
// server without the database, so the status alone is not enough.
func missing(err error) bool {
	var answer *chttp.HTTPError
	if kivik.HTTPStatus(err) != http.StatusNotFound || !errors.As(err, &answer) {
		return false
	}
	return answer.Reason != "" && !noDatabase(err)
}

// noDatabase reports whether an error is the server's answer that it does not have the
// database.
func noDatabase(err error) bool {
	var answer *chttp.HTTPError
	return errors.As(err, &answer) && slices.Contains([]string{"Database does not exist.", "no_db_file"}, answer.Reason)
}

// failed converts an error of the database. A missing document does not count as a
// failure of the database.
func (a *actions) failed(id string, err error) error {
	if missing(err) || errors.Is(err, errNoCode) {
		return fmt.Errorf("fetch action %s: %w: %w", id, ErrNotFound, err)
	}
	err = a.cfg.explain(err, a.cfg.Whisks)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() == nil {
		a.condition.Failed(a.log, "actions cannot be read", err)
	}
	return fmt.Errorf("fetch action %s: %w: %w: %w", id, activation.ErrUnfetchable, ErrUnavailable, err)
}

// answered records that reads work. The caller must hold mu.
func (a *actions) answered() {
	a.condition.Succeeded(a.log, "actions are read again")
	if a.recovered != nil {
		close(a.recovered)
		a.recovered = nil
	}
}

// await blocks until reads work. The first waiter starts the probe.
func (a *actions) await(ctx context.Context) error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return records.ErrClosed
	}
	if a.condition.OK() {
		a.mu.Unlock()
		return nil
	}
	if a.recovered == nil {
		a.recovered = make(chan struct{})
		a.wg.Go(a.probe)
	}
	back := a.recovered
	a.mu.Unlock()
	select {
	case <-back:
		return nil
	case <-a.ctx.Done():
		return records.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("wait for the database: %w", ctx.Err())
	}
}

// probe requests the database of actions until it answers, or until a read has worked.
func (a *actions) probe() {
	backoff := retry.Backoff{Min: 100 * time.Millisecond, Max: 2 * time.Second}
	for backoff.Wait(a.ctx) {
		ctx, cancel := context.WithTimeout(a.ctx, a.timeout)
		_, err := a.db.Stats(ctx)
		cancel()
		a.mu.Lock()
		if err == nil {
			a.answered()
		}
		done := a.recovered == nil
		a.mu.Unlock()
		if done {
			return
		}
	}
}

func (a *actions) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.wg.Wait()
}

func (a *actions) health(h *Health) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h.Reads = a.condition
	h.Cache = a.cache.stats
}

// readTries limits the tries of a read. OpenWhisk tries once. Two more tries bridge a
// restart of a load balancer or a short overload, and delay an activation that fails by
// a quarter of a second.
const readTries = 3

func retried(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	for try := 1; ; try++ {
		data, err := read()
		if err == nil || try == readTries || !passing(err) || ctx.Err() != nil {
			return data, err
		}
		if !pause(ctx, try) {
			return data, err
		}
	}
}

// pause waits after a try. It returns false if ctx has ended.
func pause(ctx context.Context, try int) bool {
	return retry.Sleep(ctx, time.Duration(try*try)*50*time.Millisecond)
}

// passing reports whether an error may be temporary. The library reports connection
// errors as 502.
func passing(err error) bool {
	if errors.Is(err, errNoCode) {
		return false
	}
	switch kivik.HTTPStatus(err) {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusInternalServerError:
		return true
	}
	return false
}
