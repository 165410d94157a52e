package explain

import "sync"

// Log keeps the last traces. It may be used from many goroutines; a nil one
// keeps nothing.
type Log struct {
	size int

	mu   sync.Mutex
	ring []*Trace // at most size; the oldest is at seen % size when it is full
	seen uint64
}

// NewLog makes a log of the last n traces, nil for none. Its memory is taken as
// traces come and grows no more after n.
func NewLog(n int) *Log {
	if n <= 0 {
		return nil
	}
	return &Log{size: n}
}

// Add keeps a copy of a trace; the oldest gives way.
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

// Find gives the newest trace of an activation. It looks through all of them:
// that is asked for by a person.
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

// Recent gives the newest n traces, the newest first, and how many there ever
// were.
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

// newest lists the newest n traces, which nothing changes any more.
func (l *Log) newest(n int) []*Trace {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Trace, min(n, len(l.ring)))
	for i := range out {
		out[i] = l.ring[(l.seen-1-uint64(i))%uint64(len(l.ring))]
	}
	return out
}
