package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestUselessDeviceChangesNothing: beside a device that can serve none of those that
// wait, all is granted as if it were not there, and each flow keeps its state.
func TestUselessDeviceChangesNothing(t *testing.T) {
	for _, policy := range bounded() {
		var histories [2][]string
		for useless := range 2 {
			m := newMemories(10, 10)
			m.foreign[1] = 8
			s := newScheduler(t, policy, m, nil)
			for d := range 1 + useless {
				s.AddDevice(0, d, 1)
			}
			flows := []FlowID{{"a", "long"}, {"b", "short"}, {"b", "other"}}
			for _, f := range flows {
				m.needs[f] = 5
			}
			id, now := uint64(0), time.Duration(0)
			for now < 3*time.Hour {
				for _, f := range flows {
					for st, _ := s.Flow(f); st.Queued < 3; st.Queued++ {
						id++
						s.Enqueue(now, Invocation{ID: id, Flow: f})
					}
				}
				c, ok := s.Next(now)
				if !ok {
					t.Fatalf("%s: nothing is granted at %s", policy, now)
				}
				histories[useless] = append(histories[useless], fmt.Sprint(c.Flow, c.Rule, s.State(flows[0]), s.State(flows[1])))
				run := time.Second
				if c.Flow == flows[0] {
					run = 30 * time.Second
				}
				if _, ok := s.Next(now); ok {
					t.Fatalf("%s: a second run is granted", policy)
				}
				now += run
				s.Done(now, c.Invocation, Usage{Service: run})
			}
		}
		if !slices.Equal(histories[0], histories[1]) {
			t.Errorf("%s: other grants beside a useless device", policy)
		}
	}
}

// TestManyForAnotherDeviceCostNothing: a device finds who fits it, inside the window or
// beyond it, without a question about those that wait for another.
func TestManyForAnotherDeviceCostNothing(t *testing.T) {
	for _, policy := range []string{"sticky-plus", "mqfq-sticky", "mqfq"} {
		for _, namespace := range []string{"n", "other"} {
			m := newMemories(40, 10)
			s := newScheduler(t, policy, m, nil)
			s.AddDevice(0, 0, 1)
			s.AddDevice(0, 1, 1)
			for i := range uint64(1000) {
				f := FlowID{namespace, fmt.Sprint("large", i)}
				m.needs[f] = 30
				s.Enqueue(0, Invocation{ID: i, Flow: f})
			}
			for _, ok := s.Next(0); ok || s.sweeping() || len(s.stale) > 0; _, ok = s.Next(0) {
			}
			small, now := FlowID{"n", "small"}, time.Duration(0)
			m.needs[small] = 1
			rules := map[Rule]int{}
			for i := range uint64(500) {
				s.Enqueue(now, Invocation{ID: 1000 + i, Flow: small})
				m.asked = 0
				c, ok := s.Next(now)
				check.That(check.Must(t), ok, "%s: something is granted at %s", policy, now)
				check.Equal(check.Must(t), c.Flow, small, "%s, at %s", policy, now)
				check.Equal(check.Must(t), c.Device, 1, "%s, at %s", policy, now)
				if m.asked > 10 {
					t.Fatalf("%s: %d placements asked for a grant", policy, m.asked)
				}
				rules[c.Rule]++
				now += time.Second
				s.Enqueue(now, Invocation{ID: 2000 + i, Flow: small})
				s.Cancel(now, 2000+i)
				s.Done(now, c.Invocation, Usage{Service: time.Second})
			}
			if rules[RuleSpare] < 100 {
				t.Errorf("%s: rules %v, want grants beyond the window", policy, rules)
			}
		}
	}
}

// TestAsideKeepsItsLead: a flow that no device could serve holds nobody back, and
// returns with the lead that it had, neither forgiven nor with a claim.
func TestAsideKeepsItsLead(t *testing.T) {
	m := newMemories(10)
	s := newScheduler(t, "mqfq", m, nil)
	s.AddDevice(0, 0, 1)
	f, g := FlowID{"n", "f"}, FlowID{"n", "g"}
	m.needs[f], m.needs[g] = 8, 2
	id := uint64(0)
	for _, flow := range []FlowID{f, g} {
		for range 100 {
			id++
			s.Enqueue(0, Invocation{ID: id, Flow: flow})
		}
	}
	run := func(used time.Duration) FlowID {
		c, ok := s.Next(0)
		if !ok {
			t.Fatal("nothing is granted")
		}
		s.Done(0, c.Invocation, Usage{Service: used})
		return c.Flow
	}
	for run(7*time.Second) != f { // then it leads
	}
	before, _ := s.Flow(f)
	m.foreign[0] = 5
	s.Resized(0)
	for range 50 {
		if got := run(2 * time.Second); got != g {
			t.Fatalf("%s is granted, which does not fit", got)
		}
	}
	aside, _ := s.Flow(f)
	check.Equal(t, aside.Lead, before.Lead)
	check.Equal(t, aside.State, Throttled)
	check.Equal(t, s.Explain(0, f).Rule, RuleNoFit, "aside")
	m.foreign[0] = 0
	s.Resized(0)
	run(0)
	after, _ := s.Flow(f)
	check.Equal(t, after.State, Active)
	check.AtMost(t, after.Lead, before.Lead)
	check.AtLeast(t, after.Lead, before.Lead-2*time.Second)
}

// TestNetFindsWhatWasNotReported: a flow that fits again is found without an event.
func TestNetFindsWhatWasNotReported(t *testing.T) {
	for _, policy := range Policies() {
		m := newMemories(10)
		m.foreign[0], m.needs[FlowID{"n", "f"}] = 9, 5
		s := newScheduler(t, policy.Name, m, nil)
		s.AddDevice(0, 0, 1)
		s.Enqueue(0, Invocation{ID: 1, Flow: FlowID{"n", "f"}})
		if _, ok := s.Next(0); ok {
			t.Fatalf("%s: granted what does not fit", policy.Name)
		}
		m.foreign[0] = 0
		at, due := s.Deadline()
		check.That(check.Must(t), due, "%s: there is a deadline", policy.Name)
		check.AtMost(check.Must(t), at, 10*time.Second, "%s", policy.Name)
		s.Tick(at)
		if _, ok := s.Next(at); !ok {
			t.Errorf("%s: not granted at %s", policy.Name, at)
		}
	}
}
