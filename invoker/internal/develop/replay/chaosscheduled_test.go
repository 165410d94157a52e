package replay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestChaosScheduled is TestChaos in scheduler mode, with processes, an etcd and the
// scheduler for tests. Each activation that an invoker has fetched has an ack and one record,
// of its answer or of its interruption, and none runs twice.
//
// An invoker is ended while each of its containers runs. A kill that meets a waiting fetch
// loses the activation that the scheduler hands to this fetch (P2 of docs/delivery.md).
func TestChaosScheduled(t *testing.T) {
	t.Parallel()
	peertest.NeedEtcd(t)
	seed := harness.Number(t, "GPUWHISK_CHAOS_SEED", int(time.Now().UnixNano()%1e9))
	rounds := harness.Number(t, "GPUWHISK_CHAOS_ROUNDS", shortChaos)
	all := &tally{of: map[string]int{}}
	t.Run("fixtures", func(t *testing.T) {
		for i := range harness.Number(t, "GPUWHISK_CHAOS_FIXTURES", 1) {
			t.Run(fmt.Sprint("scheduler-", seed+i), func(t *testing.T) {
				t.Parallel()
				newScheduledChaos(t, seed+i, all).run(rounds)
			})
		}
	})
	t.Logf("in scheduler mode, in all %s", all)
}

// scheduledChaos is a deployment in scheduler mode whose invoker is ended again and again.
type scheduledChaos struct {
	*fixture
	r     *rand.Rand
	seed  int
	tally tally
}

// places is how many containers run at once.
const places = 4

func newScheduledChaos(t *testing.T, seed int, all *tally) *scheduledChaos {
	t.Helper()
	c := &scheduledChaos{fixture: newChaosFixture(t, harness.Parts{Scheduler: harness.Scheduled, OwnEtcd: true}), r: rand.New(rand.NewPCG(uint64(seed), 1)), seed: seed, tally: tally{of: map[string]int{}, all: all}}
	c.Scheduler.SetLimit("guest", places)
	c.Put(alone("busy", 256))
	return c
}

// faults returns the possible faults.
func (c *scheduledChaos) faults() []fault {
	return []fault{
		{"nothing else", func() func() { return func() {} }},
		{"nothing else", func() func() { return func() {} }},
		{"the broker is killed", c.killKafka},
		{"etcd is stopped", func() func() {
			c.Etcd.Stop(c.T)
			return func() { c.Etcd.Start(c.T) }
		}},
	}
}

// run ends an invoker in each round.
func (c *scheduledChaos) run(rounds int) {
	t := c.T
	defer func() {
		if t.Failed() {
			c.tally.add(fixturesThatFailed, 1)
		}
		t.Logf("seed %d: %s", c.seed, &c.tally)
	}()
	c.tally.add("fixtures", 1)
	enough := harness.Number(t, "GPUWHISK_CHAOS_ENDS", 1<<30)
	p := c.Ship(0)
	over := time.Now().Add(time.Duration(harness.Number(t, "GPUWHISK_CHAOS_MINUTES", 24*60)) * time.Minute)
	for i := range rounds {
		if time.Now().After(over) || c.tally.all.count(ends) >= enough {
			t.Logf("enough after %d rounds", i)
			break
		}
		p = c.round(p, c.faults()[c.r.IntN(4)])
	}
	p.Terminate(t)
	c.tally.add(ends, 1)
	c.allEnded(2) // an ack may be sent, and not be known to be
}

// round ends an invoker and starts the next, and demands that all is accounted for.
func (c *scheduledChaos) round(p *harness.Process, f fault) (next *harness.Process) {
	t := c.T
	t.Helper()
	g := c.NewGate()
	c.Gate = g
	first := len(c.IDs) + 1 // the number of the first activation
	ids := c.Invoke(places+c.r.IntN(2*places), harness.Message{Action: "busy"})
	c.Until("each container runs", func() string {
		there, ordered := c.KeysBelow("namespace/guest/guest/busy/"), c.KeysBelow("in-progress/")
		if n := g.Runs(); n < places || n != len(there) || len(ordered) > 0 {
			return fmt.Sprintf("%d runs, containers %v, ordered %v", n, there, ordered)
		}
		return ""
	})
	c.tally.add("fault: "+f.name, 1)
	mend := f.begin()
	<-time.After(time.Duration(c.r.IntN(1500)) * time.Millisecond)
	switch end := []string{killed, killed, killedAtStart, asked}[c.r.IntN(4)]; end {
	case asked:
		c.tally.add("end: "+asked, 1)
		g.Open()
		if err := p.StopWithin(limit, os.Interrupt); err != nil && f.name == "nothing else" {
			t.Error(err)
		}
	default:
		c.tally.add("end: "+end, 1)
		p.Kill()
		g.Open()
		for range c.r.IntN(4) {
			if end == killedAtStart {
				early := harness.Launch(t, c.Shipped([]string{"PORT=0"}, append([]string{"invoker"}, c.Args(0)...)...))
				<-time.After(time.Duration(c.r.IntN(100)) * time.Millisecond)
				early.Kill() // before it can be up: see TestChaosScheduled
				c.tally.add(ends, 1)
			}
		}
	}
	c.tally.add(ends, 1)
	mend()
	next = c.Ship(0)
	c.judge(first, ids)
	return next
}

// gaveUp reports whether the scheduler itself has ended an activation.
func (c *scheduledChaos) gaveUp(id string) bool {
	seen, _ := c.Scheduler.Seen()
	return slices.ContainsFunc(seen.Failures, func(f fakescheduler.Failure) bool { return string(f.Activation) == id })
}

// judge waits until all activations of a round are settled, and demands that each is accounted
// for and ran once at most.
func (c *scheduledChaos) judge(first int, ids []string) {
	t := c.T
	t.Helper()
	peertest.UntilWithin(t, limit, "completions", func() string {
		for n, id := range ids {
			if c.Recording.Completed(id) == 0 {
				return fmt.Sprintf("activation %d of %d has none; it ran %d times; given up by the scheduler: %t",
					n, len(ids), c.Gate.RunsOf("/"+id), c.gaveUp(id))
			}
		}
		return ""
	})
	for n, id := range ids {
		runs := c.Gate.RunsOf("/" + id)
		check.AtMost(check.Must(t), runs, 1, "runs of activation %d", n)
		c.tally.add("activations", 1)
		if c.gaveUp(id) {
			check.Equal(t, runs, 0, "runs of activation %d, which the scheduler gave up", n)
			c.tally.add("activations: given up by the scheduler before any invoker had them", 1)
			c.unchecked = append(c.unchecked, id)
			continue
		}
		c.awaitRecords([]string{id})
		a, err := c.answer(id)
		check.NoError(t, err)
		switch {
		case a.StatusCode == 0 && runs == 1 && a.Result.N == first+n:
			c.tally.add("activations: answered", 1)
		case strings.HasPrefix(a.Result.Error, "The invoker ended while the action ran."):
			c.tally.add("activations: interrupted", 1)
		default:
			t.Errorf("activation %d ran %d times and has the record %s", n, runs, c.StoredRecord(id))
		}
	}
}
