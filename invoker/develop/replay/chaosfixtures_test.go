package replay

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// limit is how long chaos waits for an event before an invoker counts as hung.
// Fixtures share a machine with each other and with what else it does.
const limit = 5 * peertest.WaitLimit

// TestChaos ends one invoker after the other, at moments and in ways that the
// seed picks, while something that an invoker lives on fails or its clock is
// stepped. Nothing may be lost and nothing may run twice that is not marked for
// it: each activation has an ack and one record, of its answer or of what
// interrupted it; what had ended at a checkpoint never runs again; and a
// checkpoint finds no container, no process and no byte that waits.
//
// The short form is one fixture in our own broker and database, with processes.
// The long form has fixtures side by side, with a table of each and one of all:
// GPUWHISK_CHAOS_FIXTURES with processes, and one with Docker. With
// GPUWHISK_CHAOS_REAL=1 each has an Apache Kafka and a pouchdb-server of its own.
// After GPUWHISK_CHAOS_MINUTES, or when as many invokers have ended in all fixtures
// as GPUWHISK_CHAOS_ENDS sets, no further round begins.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := number(t, "GPUWHISK_CHAOS_SEED", int(time.Now().UnixNano()%1e9))
	real := os.Getenv("GPUWHISK_CHAOS_REAL") != ""
	if !real && os.Getenv("GPUWHISK_CHAOS_FIXTURES") == "" {
		newChaosIn(t, false, false).run(seed, number(t, "GPUWHISK_CHAOS_ROUNDS", shortChaos))
		return
	}
	rounds := number(t, "GPUWHISK_CHAOS_ROUNDS", 50)
	sum := &tallied{fixtures: map[*chaos]seen{}, enough: number(t, "GPUWHISK_CHAOS_ENDS", math.MaxInt)}
	t.Run("fixtures", func(t *testing.T) {
		for i := range number(t, "GPUWHISK_CHAOS_FIXTURES", 1) + 1 {
			name := "process"
			if i == 0 {
				name = "docker"
			}
			if only := os.Getenv("GPUWHISK_CHAOS_ENGINE"); only != "" && only != name {
				continue
			}
			t.Run(fmt.Sprintf("%s-%d", name, seed+i), func(t *testing.T) {
				t.Parallel()
				c := newChaosIn(t, real, name == "docker")
				c.long, c.sum = true, sum
				c.run(seed+i, rounds)
			})
		}
	})
	t.Logf("in all %s", sum.output())
}

// newChaosIn makes a fixture, of real parts or of our own.
func newChaosIn(t *testing.T, real, inDocker bool) *chaos {
	t.Helper()
	w := emptyFixture(t)
	host := "127.0.0.1"
	if inDocker {
		peertest.NeedDocker(t)
		dockerEngine(t).fit(w, scenario{})
		host = bridge(t)
	}
	broker := func() func() {
		w.broker.Close()
		return w.startBroker
	}
	if real {
		k := newKafka(t)
		w.kafka = k.Addr
		broker = func() func() {
			if err := k.Kill(); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := k.Start(); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.couch = newPouch(t)
	} else {
		w.startBroker()
		w.startStore()
	}
	g := newGate(t, host)
	g.work = 800 * time.Millisecond
	g.open()
	return newChaos(w, broker, g, !inDocker)
}

// seen is what happened in a fixture, or in several.
type seen struct {
	fixtures, failed, ends, checks, calls int
	struck                                int64
	verdict                               verdict
	table                                 map[string]int
}

func (c *chaos) seen() seen {
	s := seen{
		fixtures: 1, ends: c.ends, checks: c.checks, calls: len(c.calls), struck: c.front.struck.Load(),
		verdict: c.verdict, table: maps.Clone(c.table),
	}
	if c.t.Failed() {
		s.failed = 1
	}
	return s
}

func (s *seen) add(o seen) {
	s.fixtures, s.failed = s.fixtures+o.fixtures, s.failed+o.failed
	s.ends, s.checks, s.calls, s.struck = s.ends+o.ends, s.checks+o.checks, s.calls+o.calls, s.struck+o.struck
	s.verdict.answered += o.verdict.answered
	s.verdict.again += o.verdict.again
	s.verdict.interrupted += o.verdict.interrupted
	s.verdict.givenUp += o.verdict.givenUp
	if s.table == nil {
		s.table = map[string]int{}
	}
	for k, n := range o.table {
		s.table[k] += n
	}
}

func (s seen) String() string {
	var b strings.Builder
	if s.fixtures != 1 {
		fmt.Fprintf(&b, "%d fixtures, ", s.fixtures)
	}
	fmt.Fprintf(&b, "%d ends of invokers, %d checkpoints\n", s.ends, s.checks)
	for _, k := range slices.Sorted(maps.Keys(s.table)) {
		fmt.Fprintf(&b, "  %5d  %s\n", s.table[k], k)
	}
	v := s.verdict
	fmt.Fprintf(&b, "%d activations: %d answered, %d of them by a later run; %d interrupted, %d given up after three runs\n",
		s.calls, v.answered, v.again, v.interrupted, v.givenUp)
	lost := "0"
	if s.failed > 0 {
		lost = "see above"
	}
	fmt.Fprintf(&b, "lost: %s, ran twice without leave: %s, requests that met a failing database: %d", lost, lost, s.struck)
	return b.String()
}

// tallied sums up fixtures, as far as each has come.
type tallied struct {
	mu       sync.Mutex
	fixtures map[*chaos]seen
	enough   int // ends of invokers
}

// full reports, after it has taken what a fixture has seen, whether enough invokers
// have ended.
func (t *tallied) full(c *chaos) bool {
	t.add(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	ends := 0
	for _, one := range t.fixtures {
		ends += one.ends
	}
	return ends >= t.enough
}

// add takes what a fixture has seen until now.
func (t *tallied) add(c *chaos) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fixtures[c] = c.seen()
}

// output is the table of all fixtures.
func (t *tallied) output() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all seen
	for _, one := range t.fixtures {
		all.add(one)
	}
	return all.String()
}
