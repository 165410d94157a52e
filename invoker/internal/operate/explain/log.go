package explain

import "sync"

// Log keeps the last traces. It is safe for concurrent use. A nil Log keeps nothing.
type Log struct {
	size int

	mu   sync.Mutex
	ring []*Trace // at most size; the oldest is at seen % size when it is full
	seen uint64
}

// NewLog returns a log of the last n traces, or nil if n is 0. Its memory grows with the
// traces, up to n.
func NewLog(n int) *Log {
	if n <= 0 {
		return nil
	}
	return &Log{size: n}
}

// Add adds a copy of a trace. If the log is full, it replaces the oldest trace.
func (l *Log) Add(t *Trace) {
	if l == nil {
		return
	}
	kept := t.Copy()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < l.size {
		l.ring = append(l.ring, &kept)
	} else {
		l.ring[l.seen%uint64(l.size)] = &kept
	}
	l.seen++
}

// Find returns the newest trace of an activation. It searches the whole log, which is
// fast enough for requests by people.
func (l *Log) Find(id string) (Trace, bool) {
	if l == nil {
		return Trace{}, false
	}
	for _, t := range l.newest(l.size) {
		if t.ID == id {
			return t.Copy(), true
		}
	}
	return Trace{}, false
}

// Recent returns the newest n traces, the newest first, and the number of traces that
// were ever added.
func (l *Log) Recent(n int) (out []Trace, seen uint64) {
	if l == nil {
		return nil, 0
	}
	for _, t := range l.newest(n) {
		out = append(out, t.Copy())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return out, l.seen
}

// newest returns the newest n traces. They must not be changed.
func (l *Log) newest(n int) []*Trace {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Trace, min(n, len(l.ring)))
	for i := range out {
		out[i] = l.ring[(l.seen-1-uint64(i))%uint64(len(l.ring))]
	}
	return out
}
