package replay

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// spawn starts the invoker in a process of its own and returns when it is ready.
func (w *fixture) spawn() *harness.Process { return w.spawnAs(0) }

// spawnAs starts an invoker with another number and further environment.
func (w *fixture) spawnAs(id int, extra ...string) *harness.Process {
	w.t.Helper()
	cmd := harness.Command(append(w.environment(), extra...), w.args(id)...)
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	p := harness.Launch(w.t, cmd)
	check.NoError(w.t, p.Await())
	return p
}

// TestKillAgainAndAgain: invokers that are killed with all runs in flight, and then at
// any moment, together lose nothing. Interrupted runs are delivered to the next invoker,
// and the containers of dead ones are gone.
func TestKillAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t).load(caller)
	first := w.spawn()
	ids := w.call(inFlight)
	w.gate.await(inFlight)
	first.Kill()
	w.gate.open() // from here on runs end by themselves, and a kill meets them anywhere
	killed := time.Now()
	second := w.spawn()
	ready := time.Since(killed)
	w.awaitSlot(ids[0])
	t.Logf("after the kill: ready again in %v, first ack in %v", ready, time.Since(killed))
	w.awaitSlot(ids...)
	second.Terminate(t)
	w.check()
	w.killAgainAndAgain()
}

// TestKillInDocker is the same with containers, which outlive their invoker and
// are removed by the next.
func TestKillInDocker(t *testing.T) {
	t.Parallel()
	w := newFixture(t).inDocker()
	w.put(caller) // from containers no gate is in reach
	w.killAgainAndAgain()
}

func (w *fixture) killAgainAndAgain() {
	w.t.Helper()
	var sent [][]string
	for round := range 4 {
		p := w.spawn()
		ids := w.call(inFlight)
		w.awaitSlot(ids[:1+round*inFlight/5]...)
		if sent = append(sent, ids); round >= 2 {
			w.awaitSlot(sent[round-2]...) // a third end under it would be its last (maxAttempts)
		}
		p.Kill()
	}
	last := w.spawn()
	w.awaitSlot(w.ids...)
	peertest.Until(w.t, "the committed position", w.behind)
	last.Terminate(w.t)
	w.check()
}

// TestEndsWithoutTheBroker: an activation that succeeded while Kafka was unreachable is
// acknowledged by the next process with its result, whether the invoker was stopped or
// killed meanwhile. The ack equals the record, and nothing runs again.
func TestEndsWithoutTheBroker(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"stopped": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t).load(caller)
			w.once = true
			if !killed {
				w.extra = append(w.extra, "CONFIG_whisk_gpu_flushDeadline=3 seconds")
			}
			first := w.spawn()
			ids := w.call(inFlight)
			w.gate.await(inFlight)
			w.broker.Close()
			w.gate.open()
			if killed {
				first.Admin.Await(t, "the journal has all ends", func(s harness.Status) bool { return s.State.Journal.Unacknowledged == inFlight })
				first.Kill()
			} else {
				w.awaitRecords(ids)
				_ = first.Stop(os.Interrupt) // with an error: it could not commit
			}
			w.startBroker()
			second := w.spawn()
			w.awaitSlot(ids...)
			second.Terminate(t)
			w.ranOnce()
			results := map[string]int{}
			for _, r := range w.recording.ToTheEnd() {
				check.That(t, !strings.Contains(r.Value, "The invoker ended"), "an ack reports an interruption: %.300s", r.Value)
				if r.IsAck() && strings.Contains(r.Value, `"result":{"n":`) {
					results[r.ActivationID()]++
				}
			}
			for i, id := range ids {
				w.hasRecord(i)
				check.AtLeast(t, results[id], 1, "acks that have the result of activation %d", i+1)
				if killed {
					check.AtMost(t, results[id], 1, "acks that have the result of activation %d", i+1)
				}
			}
			w.noStrays()
		})
	}
}
