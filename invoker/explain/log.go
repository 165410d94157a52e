package explain

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"
)

// Log keeps the last accounts. It may be used from many goroutines; a nil one
// keeps nothing.
type Log struct {
	mu   sync.Mutex
	ring []entry
	next int
	full bool
	seen uint64
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

// Function is what the runs of a function have been like.
type Function struct {
	Function string         `json:"function"`
	Count    int            `json:"count"`
	Failed   int            `json:"failed"`
	Starts   map[string]int `json:"starts"` // by start kind
	Wait     Quantiles      `json:"waitMs"`
	Latency  Quantiles      `json:"latencyMs"`
}

// Quantiles of times, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Functions sums up the kept accounts that were answered since a time, by
// function, those with the most runs first.
func (l *Log) Functions(since time.Time) []Function {
	if l == nil {
		return nil
	}
	return sum(l.times(since))
}

// times is what one function's accounts say.
type times struct {
	Function
	waits, latencies []time.Duration
}

// times collects by function under the lock; sorting is done without it.
func (l *Log) times(since time.Time) map[unique.Handle[what]]*times {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := instant(since)
	by := map[unique.Handle[what]]*times{}
	l.back(func(i int) bool {
		e := &l.ring[i]
		if e.answered < from {
			return true
		}
		t := by[e.what]
		if t == nil {
			w := e.what.Value()
			t = &times{Function: Function{Function: w.namespace + "/" + w.action, Starts: map[string]int{}}}
			by[e.what] = t
		}
		t.Count++
		if e.failed {
			t.Failed++
		}
		if start := e.how.Value().start; start != "" {
			t.Starts[start]++
			t.waits = append(t.waits, e.wait)
		}
		t.latencies = append(t.latencies, e.latency)
		return true
	})
	return by
}

func sum(by map[unique.Handle[what]]*times) []Function {
	out := make([]Function, 0, len(by))
	for _, t := range by {
		t.Wait, t.Latency = quantiles(t.waits), quantiles(t.latencies)
		out = append(out, t.Function)
	}
	slices.SortFunc(out, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Function, b.Function))
	})
	return out
}

func quantiles(d []time.Duration) (q Quantiles) {
	if len(d) == 0 {
		return q
	}
	slices.Sort(d)
	at := func(p float64) float64 { return float64(d[int(p*float64(len(d)-1)+0.5)].Microseconds()) / 1000 }
	return Quantiles{at(0.5), at(0.95), at(0.99)}
}
