// Package forward decides which GPU invoker an activation is passed on to, by an invoker
// that has no GPU.
//
// Rendezvous hashing gives each function an order of the named invokers. All forwarders
// agree on the order, and it changes little when an invoker comes or goes. The first
// invoker of the order is the function's home, where its containers are warm. An
// activation goes to its home unless the backlog there is above the mean of all invokers;
// then the next invoker takes it, at most Choices in all.
//
// By how much the backlog may be above the mean is different for each function and
// invoker, and follows from the hash: an invoker with a little too much work loses a few
// of its functions, always the same ones, and one with far too much loses all.
//
// A Table is pure: the caller gives it reports and the time. It has no goroutine and is not
// safe for concurrent use.
package forward

import (
	"fmt"
	"hash/fnv"
	"time"
)

const (
	// Fresh is how young the last ping of a candidate must be, as at controllers.
	Fresh = 10 * time.Second
	// Choices is how many invokers of a function's order may take its activations. More
	// would spread it over hosts where it is cold.
	Choices = 4
	// Every function leaves an invoker whose backlog exceeds (1 + excess) times the mean by
	// more than setUp, which is about how long a start elsewhere takes.
	excess = 0.25
	setUp  = 3 * time.Second
)

// Report is what a GPU invoker says of itself.
type Report struct {
	Invoker int
	Enabled bool
	GPU     bool          // it has a GPU that can be used
	Backlog time.Duration // for how long its waiting activations keep its devices busy
}

// candidate is a named invoker.
type candidate struct {
	Report
	received time.Duration // of the report
	heard    bool          // there was one
}

// Table has the latest report of each named invoker.
type Table struct {
	candidates []candidate
	// readingSince is when the present reading without a pause began, lastRead its last read.
	readingSince, lastRead time.Duration
	reads                  bool // they were read at all
}

// New makes a table for the named invokers.
func New(invokers ...int) *Table {
	t := &Table{}
	for _, n := range invokers {
		t.candidates = append(t.candidates, candidate{Report: Report{Invoker: n}})
	}
	return t
}

// readPause is for how long no reports are read if reading is interrupted.
const readPause = 5 * time.Second

// Read records that reports were read now, if only none.
func (t *Table) Read(now time.Duration) {
	if !t.reads || now-t.lastRead >= readPause {
		t.readingSince = now
	}
	t.reads, t.lastRead = true, now
}

// Reported takes a report. Reports of invokers that are not named are ignored.
func (t *Table) Reported(now time.Duration, r Report) {
	for i := range t.candidates {
		if t.candidates[i].Invoker == r.Invoker {
			t.candidates[i] = candidate{r, now, true}
		}
	}
}

// refuses returns why a candidate cannot be given work, empty if it can.
func (c *candidate) refuses(now time.Duration) string {
	switch {
	case !c.heard:
		return "sent no ping"
	case !c.Enabled:
		return "is disabled"
	case now-c.received >= Fresh:
		return fmt.Sprintf("sent no ping for %s", (now - c.received).Round(time.Second))
	case !c.GPU:
		return "has no GPU that can be used"
	}
	return ""
}

// Settled reports whether every invoker that lives had time to report.
func (t *Table) Settled(now time.Duration) bool {
	return t.reads && t.lastRead-t.readingSince >= Fresh && now-t.lastRead < readPause
}

// Status is a named invoker in /status.
type Status struct {
	Invoker   int    `json:"invoker"`
	Refuses   string `json:"refuses,omitempty"` // why it is given no work
	BacklogMS int64  `json:"backlogMs"`
}

// Statuses returns what is known of the named invokers, in the order of their names.
func (t *Table) Statuses(now time.Duration) []Status {
	all := make([]Status, len(t.candidates))
	for i := range t.candidates {
		c := &t.candidates[i]
		all[i] = Status{c.Invoker, c.refuses(now), c.Backlog.Milliseconds()}
	}
	return all
}

// Choose returns the invoker that takes an activation of a function. It passes over the
// invoker except, which is the caller's own. It returns false if none can be given work.
func (t *Table) Choose(now time.Duration, namespace, function string, except int) (invoker int, ok bool) {
	var order [Choices]choice // the largest weights, falling
	n, sum, all := 0, time.Duration(0), time.Duration(0)
	key := hash(namespace, function)
	for i := range t.candidates {
		c := &t.candidates[i]
		if c.Invoker == except || c.refuses(now) != "" {
			continue
		}
		all++
		sum += c.Backlog
		this := choice{c, mix(key ^ mix(uint64(c.Invoker)+1))}
		for j := range order {
			if j == n || this.weight > order[j].weight {
				n = min(n+1, Choices)
				order[j], this = this, order[j]
				if this.candidate == nil {
					break
				}
			}
		}
	}
	if n == 0 {
		return 0, false
	}
	mean, least := sum/all, order[0]
	for _, c := range order[:n] {
		if c.Backlog <= mean+c.tolerance(mean) {
			return c.Invoker, true
		}
		if c.Backlog < least.Backlog {
			least = c
		}
	}
	return least.Invoker, true
}

// choice is a candidate and its weight for a function.
type choice struct {
	*candidate
	weight uint64
}

// tolerance returns by how much the candidate's backlog may exceed the mean before the
// function leaves it.
func (c choice) tolerance(mean time.Duration) time.Duration {
	share := float64(mix(c.weight)>>11) / (1 << 53) // from 0 to 1
	return time.Duration(share * (excess*float64(mean) + float64(setUp)))
}

func hash(namespace, function string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(namespace)) // never fails
	h.Write([]byte{0})
	h.Write([]byte(function))
	return h.Sum64()
}

// mix spreads a number over all bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
