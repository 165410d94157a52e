// Package forward decides which GPU invoker receives an activation from an invoker that has
// no GPU.
//
// Weighted rendezvous hashing orders the named invokers for each function. The first one is
// the function's home, where its containers are warm. The order changes little when an
// invoker comes or goes. The weights follow the backlogs: an invoker whose backlog stays
// above the mean slowly loses functions, until all invokers have the same backlog. Forwarders
// learn the weights from the same pings, so they agree about nearly all functions.
//
// An activation goes to its home unless the home's backlog is far above the mean of all
// invokers. Then the next invoker of the order takes the activation, at most Choices in all.
// The bound differs by function and invoker and follows from the hash: an invoker that is a
// little above the mean loses few activations, always of the same functions.
//
// A Table is pure: the caller passes reports and the time. A Table has no goroutine and is
// not safe for concurrent use.
package forward

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

const (
	// fresh is the greatest age of a candidate's last ping, as at controllers.
	fresh = 10 * time.Second
	// choices is the number of invokers that may take the activations of a function. More
	// would spread the function over hosts where it is cold.
	choices = 4
	// No activation goes to an invoker whose backlog exceeds (1 + excess) times the mean by
	// more than patience. A smaller bound spreads functions over more hosts, where they take
	// the device memory of other functions.
	excess   = 1.0
	patience = time.Minute
)

// Report describes a GPU invoker, by its own ping.
type Report struct {
	Invoker int
	Enabled bool
	GPU     bool          // it has a GPU that can be used
	Backlog time.Duration // for how long its waiting activations keep its devices busy
}

// candidate is a named invoker.
type candidate struct {
	Report
	reportedAt time.Duration // of the report
	heard      bool          // there was one
	weight     float64       // see balance.go
	logWeight  float64       // its logarithm
}

// Table has the latest report of each named invoker.
type Table struct {
	candidates []candidate
	// Reports are read since began without a pause, last at read.
	began, read time.Duration
	reads       bool // they were read at all
}

// New makes a table for the named invokers.
func New(invokers ...int) *Table {
	t := &Table{}
	for _, n := range invokers {
		t.candidates = append(t.candidates, candidate{Report: Report{Invoker: n}, weight: 1})
	}
	return t
}

// readPause is for how long no reports are read if reading is interrupted.
const readPause = 5 * time.Second

// Read records that reports were read now, if only none.
func (t *Table) Read(now time.Duration) {
	if !t.reads || now-t.read >= readPause {
		t.began = now
	}
	t.reads, t.read = true, now
}

// Reported takes a report. Reports of invokers that are not named are ignored.
func (t *Table) Reported(now time.Duration, r Report) {
	for i := range t.candidates {
		if t.candidates[i].Invoker == r.Invoker {
			c := &t.candidates[i]
			since, known := now-c.reportedAt, c.heard
			c.Report, c.reportedAt, c.heard = r, now, true
			if known {
				t.learn(now, c, since)
			}
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
	case now-c.reportedAt >= fresh:
		return fmt.Sprintf("sent no ping for %s", (now - c.reportedAt).Round(time.Second))
	case !c.GPU:
		return "has no GPU that can be used"
	}
	return ""
}

// Settled reports whether every invoker that lives had time to report.
func (t *Table) Settled(now time.Duration) bool {
	return t.reads && t.read-t.began >= fresh && now-t.read < readPause
}

// Status is a named invoker in /status.
type Status struct {
	Invoker   int     `json:"invoker"`
	Refuses   string  `json:"refuses,omitempty"` // the reason why it receives no work
	BacklogMS int64   `json:"backlogMs"`
	Weight    float64 `json:"weight"` // 1 at first
}

// Statuses returns the state of each named invoker, in the order of their names.
func (t *Table) Statuses(now time.Duration) []Status {
	all := make([]Status, len(t.candidates))
	for i := range t.candidates {
		c := &t.candidates[i]
		all[i] = Status{c.Invoker, c.refuses(now), c.Backlog.Milliseconds(), math.Round(100*c.weight) / 100}
	}
	return all
}

// Choose returns the invoker that takes an activation of a function. It passes over the
// invoker except, which is the caller's own. It returns false if none can be given work.
func (t *Table) Choose(now time.Duration, namespace, function string, except int) (invoker int, ok bool) {
	var order [choices]choice // the highest scores, highest first
	n, sum, all := 0, time.Duration(0), time.Duration(0)
	key := hash(namespace, function)
	for i := range t.candidates {
		c := &t.candidates[i]
		if c.Invoker == except || c.refuses(now) != "" {
			continue
		}
		all++
		sum += c.Backlog
		this := choice{c, c.score(key)}
		for j := range order {
			if order[j].candidate == nil || this.score > order[j].score {
				n = min(n+1, choices)
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
		if c.Backlog <= mean+c.tolerance(key, mean) {
			return c.Invoker, true
		}
		if c.Backlog < least.Backlog {
			least = c
		}
	}
	return least.Invoker, true
}

// choice is a candidate and its score for a function.
type choice struct {
	*candidate
	score float64
}

// tolerance returns by how much the candidate's backlog may exceed the mean before
// activations of the function go elsewhere.
func (c *candidate) tolerance(function uint64, mean time.Duration) time.Duration {
	return time.Duration(share(mix(c.draw(function))) * (excess*float64(mean) + float64(patience)))
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
