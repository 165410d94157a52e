// Package console is the web page that shows an invoker at work, and what the
// page reads: a snapshot once a second, and the explanation of an activation.
// The page is in the binary and needs no network beside its own server. It only
// reads: nothing that it serves changes anything.
//
// Its data comes from the functions it is given, as values that encode to
// JSON. Access control is the caller's. Its goroutines are those of net/http:
// one for each page that is open.
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

// Options is what the console shows.
type Options struct {
	// Snapshot is the state of the invoker now.
	Snapshot func(ctx context.Context) (any, error)
	// Explain describes an activation; false where there is no trace of it.
	Explain func(id string) (any, bool)
	// Closing ends the streams to open pages: a server that shuts down waits for
	// them.
	Closing <-chan struct{}
}

const (
	// interval is how often an open page gets a snapshot.
	interval = time.Second
	// snapshotTimeout bounds the making of one.
	snapshotTimeout = 5 * time.Second
	// maxID is the longest activation id that is looked for.
	maxID = 64
)

//go:embed page
var files embed.FS

// New makes the console's handler. It serves below a path that ends in a slash
// and that the caller has stripped: the page names everything relative to it.
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
		// The page loads nothing from elsewhere and may not be framed.
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

// latest returns a snapshot as JSON. Pages that are open together share one.
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

// events sends a snapshot each second as long as the page is open, or, where
// there is none, the reason.
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

// stream is a sequence of server-sent events, compressed where the page accepts
// that.
type stream struct {
	to      io.Writer
	zip     *gzip.Writer // nil: plain
	control *http.ResponseController
}

func newStream(w http.ResponseWriter, r *http.Request) *stream {
	w = httpserver.Stream(w)
	s := &stream{to: w, control: http.NewResponseController(w)}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		s.zip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that exists
		s.to = s.zip
	}
	return s
}

func (s *stream) send(name string, data []byte) error {
	if _, err := fmt.Fprintf(s.to, "event: %s\ndata: %s\n\n", name, data); err != nil {
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
