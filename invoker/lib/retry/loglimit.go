package retry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LogPause is how often a LogLimit logs.
const LogPause = time.Minute

// LogLimit limits log lines that a peer can cause by the thousand. It logs the first
// event, and then at most one line per LogPause with the number of events since. The
// zero value is ready to use. It is safe for concurrent use.
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
