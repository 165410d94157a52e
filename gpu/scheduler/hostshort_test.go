package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// counted counts how often the policy is asked for a state, and told of a revision.
type counted struct {
	Policy
	states, revised int
}

// with has a scheduler use it.
func (c *counted) with(to *Config) {
	to.NewPolicy = func(name string, cfg sched.Config, view sched.View) (p Policy, err error) {
		c.Policy, err = sched.New(name, cfg, view)
		return c, err
	}
}

func (c *counted) Revised(now time.Duration, id sched.FlowID) {
	c.revised++
	c.Policy.Revised(now, id)
}

func (c *counted) State(id sched.FlowID) sched.State {
	c.states++
	return c.Policy.State(id)
}

// TestShortOfHostBehindMany: a flow that waits only for host memory is found behind very many
// flows that also wait for device memory, and no event looks at many of them.
func TestShortOfHostBehindMany(t *testing.T) {
	const flows = 1000
	policy := &counted{}
	c := config("fcfs", 1)
	policy.with(&c)
	s := newScript(t, c)
	for range 4 { // others have most of the device
		s.now += time.Second
		s.take(Event{Kind: Sampled, Utilization: 1, Used: 12 * gib})
	}
	s.take(Event{Kind: HostReported, Host: HostMemory{Free: 1, Reclaimable: 1000}})
	for i := range flows {
		s.n++
		s.take(Event{Kind: Submitted, Invocation: s.n, Function: fn(fmt.Sprint("large", i), 8*gib)})
	}
	found := s.take(Event{Kind: Submitted, Invocation: flows + 1, Function: fn("small", gib)})
	for ticks := 0; found == ""; ticks++ {
		check.AtMost(check.Must(t), ticks, flows/shortSearch, "host memory is not reclaimed")
		at, due := s.l.Deadline()
		check.That(check.Must(t), due, "nothing is due")
		s.now, policy.states = max(s.now, at), 0
		found = s.take(Event{Kind: Tick})
		check.AtMost(check.Must(t), policy.states, 2*shortSearch, "one event asked for the states")
	}
	check.Equal(t, found, "reclaim host memory 0")
	check.AtMost(t, s.now, 5*time.Second)
}

// TestNoSearchWithoutEvents: where nothing is short of host memory alone, the search ends
// until something happens.
func TestNoSearchWithoutEvents(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	for range 4 {
		s.now += time.Second
		s.take(Event{Kind: Sampled, Utilization: 1, Used: 16 * gib})
	}
	s.take(Event{Kind: HostReported})
	for i := range 500 {
		s.n++
		s.take(Event{Kind: Submitted, Invocation: s.n, Function: fn(fmt.Sprint("f", i), gib)})
	}
	ticks := 0
	for s.l.search.resumeAt > 0 {
		s.now = s.l.search.resumeAt
		s.take(Event{Kind: Tick})
		if ticks++; ticks > 500/shortSearch {
			t.Fatalf("the search goes on after %d ticks", ticks)
		}
	}
}
