package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// newLogger writes the invoker's own log lines in the configured form.
func newLogger(w io.Writer, l config.Logs) *slog.Logger {
	level := slog.LevelInfo
	switch strings.ToUpper(l.Level) {
	case "TRACE", "DEBUG":
		level = slog.LevelDebug
	case "WARN":
		level = slog.LevelWarn
	case "ERROR":
		level = slog.LevelError
	}
	o := &slog.HandlerOptions{Level: level}
	switch l.Format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, o))
	case "text":
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(&whiskHandler{out: &lockedWriter{w: w}, level: level})
}

// whiskHandler writes lines as OpenWhisk does, so that log pipelines built for
// it go on to match:
//
//	[2026-11-21T12:00:00.000Z] [INFO] [#tid_sid_invoker] [Invoker] text key=value
//
// The id of a transaction within another follows that of the other, and a class of
// OpenWhisk's replaces Invoker.
type whiskHandler struct {
	out   *lockedWriter
	level slog.Level
	attrs string // written already, with a blank before each
	head  head
	group string
}

// head is what stands before the text.
type head struct{ tid, child, class string }

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Attributes that go into the line's head.
const (
	keyTransID = "transid"
	keyChild   = "child"
	keyClass   = "class"
)

// Enabled reports whether a level is written.
func (h *whiskHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle writes one line.
func (h *whiskHandler) Handle(_ context.Context, r slog.Record) error {
	top, attrs := h.head, h.attrs
	r.Attrs(func(a slog.Attr) bool {
		h.add(&top, &attrs, a)
		return true
	})
	child := ""
	if top.child != "" {
		child = "[#tid_" + top.child + "] "
	}
	line := fmt.Sprintf("[%s] [%s] [#tid_%s] %s[%s] %s%s\n",
		r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), r.Level, cmp.Or(top.tid, "sid_invoker"), child,
		cmp.Or(top.class, "Invoker"), oneLine(r.Message), attrs)
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := io.WriteString(h.out.w, line)
	return err
}

func (h *whiskHandler) add(top *head, attrs *string, a slog.Attr) {
	v := a.Value.Resolve()
	if h.group == "" {
		switch a.Key {
		case keyTransID:
			top.tid = v.String()
			return
		case keyChild:
			top.child = v.String()
			return
		case keyClass:
			top.class = v.String()
			return
		}
	}
	text := v.String()
	if v.Kind() == slog.KindDuration {
		text = v.Duration().Round(time.Microsecond).String()
	}
	if strings.ContainsAny(text, " \t\n\"=") || text == "" {
		text = fmt.Sprintf("%q", text)
	}
	*attrs += " " + h.group + a.Key + "=" + text
}

// WithAttrs gives a handler that adds attributes to every line.
func (h *whiskHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, a := range attrs {
		c.add(&c.head, &c.attrs, a)
	}
	return &c
}

// WithGroup puts a name before the keys that follow.
func (h *whiskHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.group += name + "."
	return &c
}

// oneLine keeps a message on its line: a newline could forge another.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "\\n") }
