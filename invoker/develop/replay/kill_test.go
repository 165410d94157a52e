package replay

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// process is an invoker in a process of its own.
type process struct {
	*harness.Process
	t *testing.T
}

// spawn starts the invoker and returns when it is ready.
func (w *fixture) spawn() *process { return w.spawnAs(0) }

// spawnAs starts an invoker with another number and further environment.
func (w *fixture) spawnAs(id int, extra ...string) *process {
	w.t.Helper()
	cmd := harness.Command(append(w.environment(), extra...), w.args(id)...)
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	p := w.launch(cmd)
	check.NoError(w.t, p.Await())
	return &process{p, w.t}
}

// launch starts an invoker that ends with the test, and does not wait for it.
func (w *fixture) launch(cmd *exec.Cmd) *harness.Process {
	w.t.Helper()
	p, err := harness.Start(cmd)
	check.NoError(w.t, err)
	w.t.Cleanup(p.Kill)
	return p
}

// terminate asks the invoker to end for good and demands that it ends well.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.Stop(os.Interrupt); err != nil {
		p.t.Error(err)
	}
}

// await requests an invoker's status until it is as wanted.
func (p *process) await(what string, want func(harness.Status) bool) {
	p.t.Helper()
	limit := peertest.WaitLimit + time.Duration(number(p.t, "GPUWHISK_BACKLOG", shortBacklog))*10*time.Millisecond
	peertest.UntilWithin(p.t, limit, what, func() string {
		if s := p.Admin.Status(p.t); !want(s) {
			return fmt.Sprintf("%+v, %+v", s.State, *s.Work)
		}
		return ""
	})
}

// TestKillAgainAndAgain: killed with all runs in flight, and then in the middle of
// any number of things, the invokers together lose nothing. What ran is delivered to
// the next one, and the containers of the dead are gone.
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
	second.terminate()
	w.check()
	w.killAgainAndAgain()
}

// TestKillInDocker is the same with containers, which outlive their invoker and
// are removed by the next.
func TestKillInDocker(t *testing.T) {
	t.Parallel()
	peertest.NeedDocker(t)
	w := newFixture(t)
	dockerEngine(t).fit(w, scenario{})
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
	last.terminate()
	w.check()
}

// TestEndsWithoutTheBroker: what succeeded while Kafka was away is acknowledged by
// the next process as it ended, whether the invoker was asked to stop meanwhile or
// was killed: an ack has what its record has, and nothing runs again.
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
				first.await("the journal has all ends", func(s harness.Status) bool { return s.State.Journal.Unacknowledged == inFlight })
				first.Kill()
			} else {
				w.awaitRecords(ids)
				_ = first.Stop(os.Interrupt) // with an error: it could not commit
			}
			w.startBroker()
			second := w.spawn()
			w.awaitSlot(ids...)
			second.terminate()
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
