package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// textLog returns a logger that writes text lines on standard error.
func textLog(level slog.Level) *slog.Logger {
	return slog.New(retry.LimitRepeats(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
}

// newLogger returns the invoker's logger in the configured format and level.
func newLogger(w io.Writer, l config.Logs) *slog.Logger {
	level := slog.LevelDebug // also for TRACE, which slog does not know
	_ = level.UnmarshalText([]byte(l.Level))
	o := &slog.HandlerOptions{Level: level}
	switch l.Format {
	case "json":
		return slog.New(retry.LimitRepeats(slog.NewJSONHandler(w, o)))
	case "text":
		return slog.New(retry.LimitRepeats(slog.NewTextHandler(w, o)))
	}
	o.ReplaceAttr = behindText
	line := &line{writer: w}
	return slog.New(retry.LimitRepeats(&whiskHandler{Handler: slog.NewTextHandler(&line.attrs, o), line: line}))
}

// whiskHandler writes log lines in OpenWhisk's format, so that existing log pipelines
// still match:
//
//	[2026-11-21T12:00:00.000Z] [INFO] [#tid_sid_invoker] [Invoker] text key=value
//
// The attribute "class" replaces Invoker by another class of OpenWhisk's.
type whiskHandler struct {
	slog.Handler // formats the attributes after the message
	line         *line
	head         head
	grouped      bool
}

// line is shared by all handlers of one logger.
type line struct {
	mu     sync.Mutex
	attrs  bytes.Buffer // attributes of the current line
	writer io.Writer
}

// head holds the fields before the message.
type head struct{ tid, class string }

// add stores an attribute that belongs in the head, and reports whether it did.
func (h *head) add(a slog.Attr) bool {
	switch a.Key {
	case "transid":
		h.tid = a.Value.String()
	case "class":
		h.class = a.Value.String()
	}
	return true
}

// behindText drops the attributes that are written before the message.
func behindText(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && slices.Contains([]string{slog.TimeKey, slog.LevelKey, slog.MessageKey, "transid", "class"}, a.Key) {
		return slog.Attr{}
	}
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.DurationValue(a.Value.Duration().Round(time.Microsecond))
	}
	return a
}

// Handle writes one line.
func (h *whiskHandler) Handle(ctx context.Context, r slog.Record) error {
	top := h.head
	if !h.grouped {
		r.Attrs(top.add)
	}
	message := strings.ReplaceAll(r.Message, "\n", "\\n") // a line break could forge another line
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.attrs.Reset()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	text := fmt.Sprintf("[%s] [%s] [#tid_%s] [%s] %s %s", r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), r.Level,
		cmp.Or(top.tid, "sid_invoker"), cmp.Or(top.class, "Invoker"), message, h.line.attrs.Bytes())
	_, err := fmt.Fprintln(h.line.writer, strings.TrimRight(text, " \n")) // without attributes there is a trailing blank
	return err
}

// WithAttrs returns a handler that adds the attributes to every line.
func (h *whiskHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	if !h.grouped {
		for _, a := range attrs {
			c.head.add(a)
		}
	}
	c.Handler = h.Handler.WithAttrs(attrs)
	return &c
}

// WithGroup returns a handler that adds a prefix to the keys of later attributes.
func (h *whiskHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.Handler, c.grouped = h.Handler.WithGroup(name), true
	return &c
}
