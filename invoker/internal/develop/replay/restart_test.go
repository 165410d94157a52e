package replay

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestRestartGap reports how long the gap in service is when an invoker is killed with 50
// activations in flight, or asked to stop, and the next one is started at once:
// until its first ack is with the controller. Goals: 1 s for 95 of 100 kills, and
// 0.6 s for a stop. GPUWHISK_RESTARTS sets how many of each, GPUWHISK_PROGRAM
// which program; without one it is this.
func TestRestartGap(t *testing.T) {
	if os.Getenv("GPUWHISK_RESTARTS") == "" {
		t.Skip("a measurement: make long, or GPUWHISK_RESTARTS=20")
	}
	rounds := harness.Number(t, "GPUWHISK_RESTARTS", 20)
	t.Run("process", func(t *testing.T) { newRestarts(newFixture(t)).measure(rounds) })
	t.Run("docker", func(t *testing.T) { newRestarts(newFixture(t, harness.Parts{Docker: true})).measure(rounds) })
}

type restarts struct {
	*fixture
	p    *harness.Process
	done int // acks that were waited for
}

func newRestarts(w *fixture) *restarts {
	w.Once = true // as it is by default
	w.Put(caller)
	w.Gate = w.NewGate()
	return &restarts{fixture: w}
}

// start begins an invoker's process, and returns before the invoker is ready.
func (r *restarts) start() {
	r.T.Helper()
	cmd := harness.Command(r.Environment(), r.Args(0)...)
	if program := os.Getenv("GPUWHISK_PROGRAM"); program != "" {
		cmd.Path, cmd.Args[1] = program, "invoker"
	}
	r.p = harness.Launch(r.T, cmd)
}

// first waits for the first completion of some activations.
func (r *restarts) first(ids []string) {
	r.Recording.Wait("an ack of the next invoker", func(all []harness.Record) bool {
		for ; r.done < len(all); r.done++ {
			if one := all[r.done]; one.FreesSlot() && slices.Contains(ids, one.ActivationID()) {
				return true
			}
		}
		return false
	})
}

func (r *restarts) measure(rounds int) {
	r.start()
	r.Recording.AwaitTopic("invoker0")
	var kills, stops []time.Duration
	for range rounds {
		ids := r.call(inFlight)
		r.Gate.Await(inFlight)
		began := time.Now()
		r.p.Kill()
		r.start()
		r.first(ids)
		kills = append(kills, time.Since(began))
		r.AwaitSlot(ids...)
	}
	r.Gate.Open()
	r.AwaitSlot(r.call(1)...) // from here on there is a warm container
	for range rounds {
		began := time.Now()
		if err := r.p.Stop(syscall.SIGTERM); err != nil {
			r.T.Error(err)
		}
		r.start()
		r.first(r.call(1))
		stops = append(stops, time.Since(began))
	}
	for name, all := range map[string][]time.Duration{"kill -9": kills, "SIGTERM": stops} {
		slices.Sort(all)
		at := func(q int) time.Duration { return all[len(all)*q/100].Round(time.Millisecond) }
		r.T.Logf("%s to the first ack, %d times: least %s, half %s, p95 %s, worst %s", name, len(all), at(0), at(50), at(95),
			all[len(all)-1].Round(time.Millisecond))
	}
	_ = r.p.Stop(os.Interrupt) // leaves no warm container for a later one
}
