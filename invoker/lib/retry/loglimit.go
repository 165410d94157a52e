package retry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LogPause is how often a LogLimit logs.
const LogPause = time.Minute

// LogLimit logs what a peer can cause by the thousand: the first time, and then once
// per LogPause at most, with how often it has happened since. The zero value is
// ready. It is safe for use by many goroutines.
type LogLimit struct {
	mu    sync.Mutex
	last  time.Time // zero: nothing was logged
	count int
}

// Log logs an event, or counts it.
func (l *LogLimit) Log(log *slog.Logger, level slog.Level, text string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < LogPause {
		return
	}
	log.Log(context.Background(), level, text, append(args, "count", l.count)...)
	l.last, l.count = now, 0
}
