package explain

import (
	"strings"
	"sync"
)

// Log keeps the last accounts. It may be used from many goroutines; a nil one
// keeps nothing.
type Log struct {
	mu   sync.Mutex
	ring []entry
	next int
	full bool
	seen uint64
	sums *sums // nil while nobody asks
}

// NewLog makes a log of the last n accounts, nil for none. Its memory is taken
// as accounts come and grows no more after n.
func NewLog(n int) *Log {
	if n <= 0 {
		return nil
	}
	return &Log{ring: make([]entry, n)}
}

// Add keeps what an account says; the oldest gives way. No text of it is kept:
// those are parts of the message that it is about, which would stay in memory,
// parameters and all.
func (l *Log) Add(a *Account) {
	if l == nil {
		return
	}
	e := newEntry(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.next] = e
	l.seen++
	if l.next++; l.next == len(l.ring) {
		l.next, l.full = 0, true
	}
	if l.sums != nil && l.seen-l.sums.asked > uint64(len(l.ring)) {
		l.sums = nil // by now all that it knows is gone
	}
}

// Find gives the newest account of an activation. It looks through all of them:
// that is asked for by a person.
func (l *Log) Find(id string) (a Account, ok bool) {
	if l == nil {
		return Account{}, false
	}
	key := string(packID(nil, id))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back(func(i int) bool {
		if ok = strings.HasPrefix(l.ring[i].packed, key); ok {
			a = l.ring[i].account()
		}
		return !ok
	})
	return a, ok
}

// Recent gives the newest n accounts, the newest first, and how many there ever
// were.
func (l *Log) Recent(n int) (out []Account, seen uint64) {
	if l == nil {
		return nil, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back(func(i int) bool {
		if len(out) == n {
			return false
		}
		out = append(out, l.ring[i].account())
		return true
	})
	return out, l.seen
}

// back visits the places from the newest to the oldest.
func (l *Log) back(visit func(i int) bool) {
	n := l.next
	if l.full {
		n = len(l.ring)
	}
	for k := range n {
		if !visit((l.next - 1 - k + len(l.ring)) % len(l.ring)) {
			return
		}
	}
}
