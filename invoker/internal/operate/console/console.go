// Package console serves the web page that shows an invoker at work, with the data of
// the page: a snapshot each second, and explanations of activations. The page is
// embedded in the binary and loads nothing from other servers. The console is
// read-only.
//
// The data comes from the functions in Options, as values that encode to JSON. The
// caller controls access. The package starts no goroutines besides those of net/http,
// one for each open page.
package console

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
)

// Options holds the functions that return the data.
type Options struct {
	// Snapshot returns the current state of the invoker.
	Snapshot func(ctx context.Context) (any, error)
	// Explain describes an activation. It returns false if the invoker has no trace of
	// the activation.
	Explain func(id string) (any, bool)
	// Closing ends the streams to open pages when it is closed. A server that shuts down
	// waits for the streams.
	Closing <-chan struct{}
}

const (
	// interval is the time between two snapshots of an open page.
	interval = time.Second
	// snapshotTimeout bounds the time for one snapshot.
	snapshotTimeout = 5 * time.Second
	// maxID is the longest activation id that is looked up.
	maxID = 64
)

//go:embed page
var files embed.FS

// New returns the handler of the console. The page uses relative addresses, so the
// console can be served below any path that ends in a slash. The caller strips that
// path.
func New(o Options) http.Handler {
	c := &console{Options: o}
	page, _ := fs.Sub(files, "page") // the directory is embedded
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", c.events)
	mux.HandleFunc("GET /snapshot", c.snapshot)
	mux.HandleFunc("GET /explain/{id}", c.explain)
	mux.Handle("GET /", http.FileServerFS(page))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		// The page loads nothing from other servers and must not be framed.
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	})
}

type console struct {
	Options

	mu   sync.Mutex
	text []byte // the last snapshot as JSON
	made time.Time
}

// latest returns a snapshot as JSON. All open pages share it for half an interval.
func (c *console) latest(ctx context.Context) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text != nil && time.Since(c.made) < interval/2 {
		return c.text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	value, err := c.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	c.text, c.made = text, time.Now()
	return text, nil
}

func (c *console) snapshot(w http.ResponseWriter, r *http.Request) {
	text, err := c.latest(r.Context())
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the connection is lost if this fails
}

func (c *console) explain(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	explanation, ok := any(nil), false
	if len(id) <= maxID {
		explanation, ok = c.Explain(id)
	}
	if !ok {
		refuse(w, http.StatusNotFound, "This invoker has no trace of the activation: it ran elsewhere, has not ended, or was dropped for newer ones (whisk.gpu.explain).")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(explanation)
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why})
}

// events sends a snapshot each second while the page is open. If there is no snapshot, it
// sends the error.
func (c *console) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	s := newStream(w, r)
	defer s.close()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		name := "snapshot"
		text, err := c.latest(r.Context())
		if err != nil {
			name = "trouble"
			text, _ = json.Marshal(map[string]string{"error": err.Error()}) // a string always encodes
		}
		if s.send(name, text) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-c.Closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream is a sequence of server-sent events. It is compressed if the page accepts that.
type stream struct {
	out     io.Writer
	zip     *gzip.Writer // nil: plain
	control *http.ResponseController
}

func newStream(w http.ResponseWriter, r *http.Request) *stream {
	w = httpserver.Stream(w)
	s := &stream{out: w, control: http.NewResponseController(w)}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		s.zip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that exists
		s.out = s.zip
	}
	return s
}

func (s *stream) send(name string, data []byte) error {
	if _, err := fmt.Fprintf(s.out, "event: %s\ndata: %s\n\n", name, data); err != nil {
		return err
	}
	if s.zip != nil {
		if err := s.zip.Flush(); err != nil {
			return err
		}
	}
	return s.control.Flush()
}

func (s *stream) close() {
	if s.zip != nil {
		_ = s.zip.Close() // the connection is lost if this fails
	}
}
