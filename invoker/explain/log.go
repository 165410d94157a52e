package explain

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Log keeps the last accounts. It may be used from many goroutines; a nil one
// keeps nothing.
type Log struct {
	mu   sync.Mutex
	ring []Account
	gpus []GPU // of the accounts, by their place
	at   map[string]int
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
	return &Log{ring: make([]Account, n), gpus: make([]GPU, n), at: make(map[string]int, n)}
}

// Add keeps a copy of an account; the oldest gives way.
func (l *Log) Add(a *Account) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.next
	if l.full && l.at[l.ring[i].ID] == i {
		delete(l.at, l.ring[i].ID)
	}
	l.ring[i] = *a
	l.ring[i].own()
	if a.GPU != nil {
		l.gpus[i] = *a.GPU
		l.ring[i].GPU = &l.gpus[i]
	}
	l.at[l.ring[i].ID] = i
	l.seen++
	if l.next++; l.next == len(l.ring) {
		l.next, l.full = 0, true
	}
}

// own gives an account texts of its own. They are parts of the message that it
// is about, which would stay in memory, parameters and all, as long as one of
// them does.
func (a *Account) own() {
	for _, text := range []*string{&a.ID, &a.Namespace, &a.Action, &a.Kind, &a.Container, &a.Refused} {
		*text = strings.Clone(*text)
	}
}

// Find gives the account of an activation.
func (l *Log) Find(id string) (Account, bool) {
	if l == nil {
		return Account{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.at[id]
	if !ok {
		return Account{}, false
	}
	return l.copied(i), true
}

// copied is an account that nobody writes to.
func (l *Log) copied(i int) Account {
	a := l.ring[i]
	if a.GPU != nil {
		g := *a.GPU
		a.GPU = &g
	}
	return a
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
		out = append(out, l.copied(i))
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
func (l *Log) times(since time.Time) map[[2]string]*times {
	l.mu.Lock()
	defer l.mu.Unlock()
	by := map[[2]string]*times{}
	l.back(func(i int) bool {
		a := &l.ring[i]
		if a.Answered.Before(since) {
			return true
		}
		key := [2]string{a.Namespace, a.Action}
		t := by[key]
		if t == nil {
			t = &times{Function: Function{Function: a.Function(), Starts: map[string]int{}}}
			by[key] = t
		}
		t.Count++
		if a.Status != 0 {
			t.Failed++
		}
		if a.Start != "" {
			t.Starts[a.Start]++
			t.waits = append(t.waits, a.Wait())
		}
		t.latencies = append(t.latencies, a.Latency())
		return true
	})
	return by
}

func sum(by map[[2]string]*times) []Function {
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
