// Package console is the web page that shows an invoker at work, and what the
// page lives on: a snapshot, once a second what has changed of it, and the
// account of an activation. It
// is in the binary and needs no network beside its own server. It only reads:
// nothing that it serves changes anything.
//
// What is shown comes from the functions it is given, as values that encode to
// JSON. Whoever serves it guards it. Its goroutines are those of net/http: one
// for each page that is open.
package console

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"time"
)

// Options is what the console shows.
type Options struct {
	// Snapshot is all that is to be seen now, each time a new value of the same
	// type, which is the console's from then on. Lists of what comes and goes
	// have items with a key, which a field has by the tag delta:"key".
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

	mu     sync.Mutex
	differ differ
	packer packer
	last   *moment
}

// moment is a snapshot, and what a page is told of it: all, or what has changed
// since the moment before.
type moment struct {
	number       int // from 1
	made         time.Time
	value        any
	whole, delta *event // whole is made when somebody asks
}

// next gives the newest moment, which is made anew when the last is one that the
// caller has, or too old.
func (c *console) next(ctx context.Context, seen int) (*moment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &moment{number: 1}
	if c.last != nil {
		if c.last.number > seen && time.Since(c.last.made) < every/2 {
			return c.last, nil
		}
		m.number = c.last.number + 1
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var err error
	if m.value, err = c.o.Snapshot(ctx); err != nil {
		return nil, err
	}
	m.made = time.Now()
	if c.last != nil {
		text, err := c.differ.change(c.last.value, m.value)
		if err != nil {
			return nil, fmt.Errorf("compare snapshots: %w", err)
		}
		if text == nil {
			text = []byte("{}")
		}
		m.delta = newEvent("delta", text)
	}
	c.last = m
	return m, nil
}

// whole gives the newest moment with all of it as text.
func (c *console) whole() (*moment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.last
	if m.whole == nil {
		text, err := json.Marshal(m.value)
		if err != nil {
			return nil, fmt.Errorf("encode snapshot: %w", err)
		}
		m.whole = newEvent("snapshot", text)
	}
	return m, nil
}

func (c *console) snapshot(w http.ResponseWriter, r *http.Request) {
	m, err := c.next(r.Context(), 0)
	if err == nil {
		m, err = c.whole()
	}
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(m.whole.data()) // the caller has gone if this fails
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

// events sends a snapshot now and then each second what has changed, for as long
// as the page is open. Where the invoker cannot say how it is, the page hears
// why; a page that has missed something hears all of it again.
func (c *console) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	s := c.stream(w, r)
	defer s.end()
	again := time.NewTimer(0)
	defer again.Stop()
	for seen := 0; ; {
		select {
		case <-again.C:
		case <-c.o.Closing:
			return
		case <-r.Context().Done():
			return
		}
		e, at := c.news(r.Context(), &seen)
		if s.send(e) != nil {
			return
		}
		// Pages that look at the same moment ask for the next together.
		again.Reset(time.Until(at.Add(every)))
	}
}

// news gives what a page is to hear that has seen the moment of a number, or
// none, and when that was made.
func (c *console) news(ctx context.Context, seen *int) (*event, time.Time) {
	m, err := c.next(ctx, *seen)
	all := err == nil && (*seen == 0 || m.number != *seen+1)
	if all {
		m, err = c.whole()
	}
	if err != nil {
		*seen = 0
		text, _ := json.Marshal(map[string]string{"error": err.Error()}) // a text always has a form
		return newEvent("trouble", text), time.Now()
	}
	if *seen = m.number; all {
		return m.whole, m.made
	}
	return m.delta, m.made
}
