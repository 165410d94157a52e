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

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// limit is how long chaos waits for an event before an invoker counts as hung. Fixtures
// share a busy machine.
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
	seed := harness.Number(t, "GPUWHISK_CHAOS_SEED", int(time.Now().UnixNano()%1e9))
	if os.Getenv("GPUWHISK_CHAOS_REAL") == "" && os.Getenv("GPUWHISK_CHAOS_FIXTURES") == "" {
		newChaosIn(t, false, nil).run(seed, harness.Number(t, "GPUWHISK_CHAOS_ROUNDS", shortChaos))
		return
	}
	rounds := harness.Number(t, "GPUWHISK_CHAOS_ROUNDS", 50)
	all := &tally{of: map[string]int{}}
	t.Run("fixtures", func(t *testing.T) {
		for i := range harness.Number(t, "GPUWHISK_CHAOS_FIXTURES", 1) + 1 {
			name := "process"
			if i == 0 {
				name = "docker"
			}
			if only := os.Getenv("GPUWHISK_CHAOS_ENGINE"); only != "" && only != name {
				continue
			}
			t.Run(fmt.Sprintf("%s-%d", name, seed+i), func(t *testing.T) {
				t.Parallel()
				c := newChaosIn(t, name == "docker", all)
				c.long, c.enough = true, harness.Number(t, "GPUWHISK_CHAOS_ENDS", math.MaxInt)
				c.run(seed+i, rounds)
			})
		}
	})
	t.Logf("in all %s", all)
}

// newChaosFixture is a fixture with an Apache Kafka and a pouchdb-server if
// GPUWHISK_CHAOS_REAL=1.
func newChaosFixture(t *testing.T, p harness.Parts) *fixture {
	t.Helper()
	p.Apache = os.Getenv("GPUWHISK_CHAOS_REAL") != ""
	p.PouchDB = p.Apache
	w := newFixture(t, p)
	w.Once = true
	return w
}

// killKafka kills the broker, and returns a function that starts it again.
func (w *fixture) killKafka() (over func()) {
	check.NoError(w.T, w.Broker.Kill())
	return w.kafkaBack
}

// newChaosIn makes the chaos of a fixture with processes or with Docker.
func newChaosIn(t *testing.T, inDocker bool, all *tally) *chaos {
	t.Helper()
	w := newChaosFixture(t, harness.Parts{Docker: inDocker})
	w.Gate = w.NewGate()
	w.Gate.Work = 800 * time.Millisecond
	w.Gate.Open()
	return newChaos(w, !inDocker, all)
}

// tally counts events in a fixture by kind. It also adds them to all.
type tally struct {
	mu  sync.Mutex
	of  map[string]int
	all *tally // nil: there is one fixture, or this is of all
}

// Kinds of events that the chaos test also reads from a tally.
const (
	ends               = "ends of invokers"
	fixturesThatFailed = "fixtures that failed"
)

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	t.of[what] += n
	t.mu.Unlock()
	if t.all != nil {
		t.all.add(what, n)
	}
}

func (t *tally) count(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[what]
}

// String formats the counts as a table.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(t.of)) {
		fmt.Fprintf(&b, "\n  %5d  %s", t.of[what], what)
	}
	lost := "0"
	if t.of[fixturesThatFailed] > 0 {
		lost = "see above"
	}
	fmt.Fprintf(&b, "\nlost: %s, ran twice without leave: %s", lost, lost)
	return b.String()
}
