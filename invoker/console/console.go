// Package console is the web page that shows an invoker at work, and what the
// page lives on: a snapshot once a second and the account of an activation. It
// is in the binary and needs no network beside its own server. It only reads:
// nothing that it serves changes anything.
//
// What is shown comes from the functions it is given, as values that encode to
// JSON. Whoever serves it guards it. Its goroutines are those of net/http: one
// for each page that is open.
package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options is what the console shows.
type Options struct {
	// Snapshot is all that is to be seen now.
	Snapshot func(ctx context.Context) (any, error)
	// Explain tells of an activation; false if nothing is known of it.
	Explain func(id string) (any, bool)
	// Closing ends the streams to open pages: a server that shuts down waits for
	// them.
	Closing <-chan struct{}
}

// every is how often an open page hears news. A snapshot is made once in that
// time, for however many pages.
const every = time.Second

//go:embed page
var files embed.FS

// New makes the console's handler. It serves below a path that ends in a slash
// and that the caller has stripped: the page names everything relative to it.
func New(o Options) http.Handler {
	c := &console{o: o}
	page, _ := fs.Sub(files, "page") // the directory is embedded
	static := http.FileServerFS(page)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", c.events)
	mux.HandleFunc("GET /snapshot", c.snapshot)
	mux.HandleFunc("GET /explain/{id}", c.explain)
	mux.Handle("GET /", static)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		// The page loads nothing from elsewhere and is in nobody's frame.
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	})
}

type console struct {
	o Options

	mu   sync.Mutex
	last []byte
	at   time.Time
}

// now gives the newest snapshot, which is made anew when the last is too old.
func (c *console) now(ctx context.Context) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && time.Since(c.at) < every/2 {
		return c.last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := c.o.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	c.last, c.at = b, time.Now()
	return b, nil
}

func (c *console) snapshot(w http.ResponseWriter, r *http.Request) {
	b, err := c.now(r.Context())
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the caller has gone if this fails
}

// maxID is the longest activation id that is looked for.
const maxID = 64

func (c *console) explain(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	told, ok := any(nil), false
	if len(id) <= maxID {
		told, ok = c.o.Explain(id)
	}
	if !ok {
		refuse(w, http.StatusNotFound, "Nothing is known here of this activation: it ran elsewhere, has not ended, or has made way for newer ones (whisk.gpu.explain).")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(told)
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why})
}

// events sends a snapshot now and then one each second, for as long as the page
// is open. Where the invoker cannot say how it is, the page hears why.
func (c *console) events(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	out := stream(w, r)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		name := "snapshot"
		b, err := c.now(r.Context())
		if err != nil {
			name = "trouble"
			b, _ = json.Marshal(map[string]string{"error": err.Error()})
		}
		if out(name, b) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-c.o.Closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream gives the function that sends an event, compressed where the page
// takes it: the states of a thousand functions are much alike.
func stream(w http.ResponseWriter, r *http.Request) func(name string, data []byte) error {
	control := http.NewResponseController(w)
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return func(name string, data []byte) error {
			if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data); err != nil {
				return err
			}
			return control.Flush()
		}
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that there is
	var event bytes.Buffer
	return func(name string, data []byte) error {
		event.Reset()
		fmt.Fprintf(&event, "event: %s\ndata: %s\n\n", name, data)
		if _, err := z.Write(event.Bytes()); err != nil {
			return err
		}
		if err := z.Flush(); err != nil {
			return err
		}
		return control.Flush()
	}
}
