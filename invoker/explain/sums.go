package explain

import (
	"slices"
	"time"
	"unique"
)

// Function is what the runs of a function have been like.
type Function struct {
	Function string         `json:"function" delta:"key"`
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
// function, in the order in which they came. What has not changed since it was asked
// for before is the same item, which therefore nobody may change.
//
// An open console asks once a second: only what came and went since then is
// looked at.
func (l *Log) Functions(since time.Time) []*Function {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	size := uint64(len(l.ring))
	first := l.seen - min(l.seen, size) // the oldest that is kept
	from := instant(since)
	if l.sums == nil || from < l.sums.since {
		l.sums = &sums{by: map[unique.Handle[what]]*times{}, asked: first}
	}
	s := l.sums
	s.since = from
	for s.asked < l.seen {
		s.add(s.asked, &l.ring[s.asked%size])
		s.asked++
	}
	s.expire(first)
	return s.functions()
}

// sums is what the accounts that are kept and young enough say, by function.
type sums struct {
	by    map[unique.Handle[what]]*times
	list  []*times // of by, in the order in which they came
	queue []arrived
	asked uint64 // accounts that were looked at
	since int64  // no account answered before counts
}

// arrived is an account that counts, in the order in which they came.
type arrived struct {
	number   uint64
	answered int64
	of       *times
}

// times is what one function's accounts say.
type times struct {
	name  string
	what  unique.Handle[what]
	runs  []sample // the oldest first
	now   *Function
	stale bool
}

type sample struct {
	wait, latency time.Duration
	start         string
	failed        bool
}

func (s *sums) add(number uint64, e *entry) {
	if e.answered < s.since {
		return
	}
	t := s.by[e.what]
	if t == nil {
		w := e.what.Value()
		t = &times{name: w.namespace + "/" + w.action, what: e.what}
		s.by[e.what] = t
		s.list = append(s.list, t)
	}
	t.stale = true
	t.runs = append(t.runs, sample{e.wait, e.latency, e.how.Value().start, e.failed})
	s.queue = append(s.queue, arrived{number, e.answered, t})
}

// expire takes away what is too old, and what has made way in the log: all
// before a number. One that was answered out of turn goes with the one before.
func (s *sums) expire(first uint64) {
	n := 0
	for ; n < len(s.queue) && (s.queue[n].number < first || s.queue[n].answered < s.since); n++ {
		t := s.queue[n].of
		t.runs, t.stale = t.runs[1:], true
	}
	if n == 0 {
		return
	}
	s.queue = slices.Delete(s.queue, 0, n)
	s.list = slices.DeleteFunc(s.list, func(t *times) bool {
		if len(t.runs) == 0 {
			delete(s.by, t.what)
		}
		return len(t.runs) == 0
	})
}

func (s *sums) functions() []*Function {
	out := make([]*Function, len(s.list))
	var space []time.Duration
	for i, t := range s.list {
		if t.stale {
			t.now, space = t.sum(space)
			t.stale = false
		}
		out[i] = t.now
	}
	return out
}

// sum makes a new item; space is for sorting.
func (t *times) sum(space []time.Duration) (*Function, []time.Duration) {
	f := &Function{Function: t.name, Count: len(t.runs), Starts: map[string]int{}}
	space = space[:0]
	for _, r := range t.runs {
		space = append(space, r.latency)
		if r.failed {
			f.Failed++
		}
	}
	f.Latency = quantiles(space)
	space = space[:0]
	for _, r := range t.runs {
		if r.start != "" {
			f.Starts[r.start]++
			space = append(space, r.wait)
		}
	}
	f.Wait = quantiles(space)
	return f, space
}

// quantiles sorts d.
func quantiles(d []time.Duration) (q Quantiles) {
	if len(d) == 0 {
		return q
	}
	slices.Sort(d)
	at := func(p float64) float64 { return float64(d[int(p*float64(len(d)-1)+0.5)].Microseconds()) / 1000 }
	return Quantiles{at(0.5), at(0.95), at(0.99)}
}
