package replay

import (
	"os"
	"strings"
	"testing"
	"time"

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
	p, err := harness.Start(cmd)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(p.Kill)
	if err := p.Await(); err != nil {
		w.t.Fatal(err)
	}
	return &process{p, w.t}
}

// terminate asks the invoker to end for good and demands that it ends well.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.Stop(os.Interrupt); err != nil {
		p.t.Error(err)
	}
}

// TestKillAgainAndAgain: killed with all runs in flight, and then in the middle of
// any number of things, the invokers together lose nothing. What ran is delivered to
// the next one, and the containers of the dead are gone.
func TestKillAgainAndAgain(t *testing.T) {
	t.Parallel()
	c := newLoad(newFixture(t))
	first := c.w.spawn()
	ids := c.invoke(inFlight)
	c.gate.await(inFlight)
	first.Kill()
	c.gate.open() // from here on runs end by themselves, and a kill meets them anywhere
	killed := time.Now()
	second := c.w.spawn()
	ready := time.Since(killed)
	c.settled(ids[:1])
	t.Logf("after the kill: ready again in %v, first ack in %v", ready, time.Since(killed))
	c.settled(ids)
	second.terminate()
	c.check()
	c.killAgainAndAgain()
}

// TestKillInDocker is the same with containers, which outlive their invoker and
// are removed by the next.
func TestKillInDocker(t *testing.T) {
	t.Parallel()
	peertest.NeedDocker(t)
	w := newFixture(t)
	dockerEngine(t).fit(w, scenario{})
	c := newLoad(w)
	c.far = true
	c.killAgainAndAgain()
}

func (c *load) killAgainAndAgain() {
	w := c.w
	w.t.Helper()
	var sent [][]string
	for round := range 4 {
		p := w.spawn()
		ids := c.invoke(inFlight)
		c.settled(ids[:1+round*inFlight/5])
		if sent = append(sent, ids); round >= 2 {
			c.settled(sent[round-2]) // a third end under it would be its last (maxAttempts)
		}
		p.Kill()
	}
	last := w.spawn()
	c.settled(c.ids)
	last.terminate()
	c.check()
}

// TestKillBetweenAckAndRecord: what callers received before an invoker was killed is
// what the next one records, and nothing runs again.
func TestKillBetweenAckAndRecord(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.once = true
	w.extra = append(w.extra, "CONFIG_whisk_gpu_records_spool=none")
	c := newLoad(w)
	c.gate.open()
	first := w.spawn()
	c.settled(c.invoke(1)) // the action is cached now
	w.awaitRecords(c.ids)
	w.store.shut()
	c.settled(c.invoke(inFlight))
	first.Kill()
	w.store.open()
	second := w.spawn()
	w.awaitRecords(c.ids)
	second.terminate()
	c.check()
	c.ranOnce()
}

// TestEndsWithoutTheBroker: what succeeded while Kafka was away is acknowledged by
// the next process as it ended, whether the invoker was asked to stop meanwhile or
// was killed: an ack has what its record has, and nothing runs again.
func TestEndsWithoutTheBroker(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"stopped": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.once = true
			if !killed {
				w.extra = append(w.extra, "CONFIG_whisk_gpu_flushDeadline=3 seconds")
			}
			c := newLoad(w)
			first := w.spawn()
			ids := c.invoke(inFlight)
			c.gate.await(inFlight)
			w.broker.Close()
			c.gate.open()
			if killed {
				first.await("the journal has all ends", func(s spillStatus) bool { return s.State.Journal.Unacknowledged == inFlight })
				first.Kill()
			} else {
				w.awaitRecords(ids)
				_ = first.Stop(os.Interrupt) // with an error: it could not commit
			}
			w.startBroker()
			second := w.spawn()
			c.settled(ids)
			second.terminate()
			c.ranOnce()
			results := map[string]int{}
			for _, r := range w.recording.ToTheEnd() {
				if strings.Contains(r.Value, "The invoker ended") {
					t.Errorf("an ack reports an interruption: %.300s", r.Value)
				}
				if r.IsAck() && strings.Contains(r.Value, `"result":{"n":`) {
					results[r.ActivationID()]++
				}
			}
			for i, id := range ids {
				c.hasRecord(i)
				if n := results[id]; n < 1 || killed && n > 1 {
					t.Errorf("activation %d: %d acks have its result", i+1, results[id])
				}
			}
			w.noStrays()
		})
	}
}
