package retry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logBurst is how many lines with the same text a handler of LimitRepeats passes on
// within a LogPause.
const logBurst = 100

// LimitRepeats returns a handler that bounds repeated warnings and errors: of lines with
// the same text it passes on logBurst within a LogPause. The next line after that has the
// number of lines that were left out. Lines of lower levels are not limited.
func LimitRepeats(h slog.Handler) slog.Handler {
	return limitedHandler{h, &repeats{byText: map[string]*repeat{}}}
}

type limitedHandler struct {
	slog.Handler
	repeats *repeats
}

// repeats counts the lines of each text. Texts are constants of the program, so there are
// few.
type repeats struct {
	mu     sync.Mutex
	byText map[string]*repeat
}

type repeat struct {
	since           time.Time
	passed, leftOut int
}

// mostTexts bounds the memory for texts that are not constants after all.
const mostTexts = 1000

// pass reports whether a line is passed on, and how many were left out before it.
func (r *repeats) pass(text string, now time.Time) (pass bool, leftOut int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.byText[text]
	if at == nil {
		if len(r.byText) >= mostTexts {
			clear(r.byText)
		}
		at = &repeat{since: now}
		r.byText[text] = at
	}
	if now.Sub(at.since) >= LogPause {
		leftOut = at.leftOut
		*at = repeat{since: now}
	}
	if at.passed >= logBurst {
		at.leftOut++
		return false, 0
	}
	at.passed++
	return true, leftOut
}

// Handle passes a line on unless there were too many like it.
func (h limitedHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.Handler.Handle(ctx, r)
	}
	pass, leftOut := h.repeats.pass(r.Message, r.Time)
	if !pass {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeatsLeftOut", leftOut))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that counts together with h.
func (h limitedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limitedHandler{h.Handler.WithAttrs(attrs), h.repeats}
}

// WithGroup returns a handler that counts together with h.
func (h limitedHandler) WithGroup(name string) slog.Handler {
	return limitedHandler{h.Handler.WithGroup(name), h.repeats}
}
