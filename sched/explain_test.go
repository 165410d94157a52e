package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestExplain checks the reason of each rule that can delay a flow, and of each that
// can have chosen it.
func TestExplain(t *testing.T) {
	a, b := FlowID{"ns", "a"}, FlowID{"ns", "b"}
	id := uint64(0)
	enqueue := func(s *Scheduler, f FlowID, n int) {
		for range n {
			id++
			s.Enqueue(0, Invocation{ID: id, Flow: f, Cost: time.Second})
		}
	}
	cases := []struct {
		name string
		do   func(*Scheduler, answers)
		rule Rule
		text string
	}{
		{"unknown", func(*Scheduler, answers) {}, RuleEmpty, "inactive: empty"},
		{"in flight", func(s *Scheduler, _ answers) {
			enqueue(s, a, 1)
			s.Next(0)
		}, RuleEmpty, "active: empty; last chosen by order at 0s"},
		{"next", func(s *Scheduler, _ answers) { enqueue(s, a, 1) }, RuleNone, "active: none"},
		{"behind", func(s *Scheduler, _ answers) {
			enqueue(s, b, 2)
			enqueue(s, a, 1)
		}, RuleBehind, "behind ns/b"},
		{"no token", func(s *Scheduler, _ answers) {
			enqueue(s, a, 3)
			s.Next(0)
			s.Next(0)
		}, RuleNoToken, "no token"},
		{"no device", func(s *Scheduler, _ answers) {
			s.RemoveDevice(0, 0)
			enqueue(s, a, 1)
		}, RuleNoDevice, "no device"},
		{"no fit", func(s *Scheduler, v answers) {
			v["a 0"] = Placement{Start: Cold, Setup: time.Second}
			enqueue(s, a, 1)
		}, RuleNoFit, "does not fit: no memory or no container for it on any device"},
		{"wait", func(s *Scheduler, v answers) {
			enqueue(s, a, 2)
			s.Next(0)
			v["a 0"] = Placement{Start: BusyCold, Setup: 9 * time.Second, Fits: true}
			s.Next(0)
		}, RuleWait, "until 9s"},
		{"throttled", func(s *Scheduler, _ answers) {
			enqueue(s, a, 5)
			enqueue(s, b, 1)
			for range 3 {
				c, _ := s.Next(0)
				s.Done(0, c.Invocation, Usage{Service: time.Second})
			}
		}, RuleThrottle, "throttled: its function leads by more than 2s"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg, _ := Defaults("mqfq-sticky")
			cfg.Overrun, cfg.Wait = 2*time.Second, true
			view := answers{}
			s, err := New("mqfq-sticky", cfg, view)
			if err != nil {
				t.Fatal(err)
			}
			s.AddDevice(0, 0, 2)
			c.do(s, view)
			r := s.Explainer(0)(a)
			check.Equal(t, r.Rule, c.rule)
			check.Contains(t, fmt.Sprintf("%s: %s", r.State, r), c.text)
			if c.rule == RuleThrottle {
				check.Equal(t, r.Lead, 3*time.Second)
				check.Equal(t, r.Behind, b)
			}
			figures := func() string {
				queued, inFlight := s.Len()
				of, _ := s.Flow(a)
				other, _ := s.Flow(b)
				return fmt.Sprint(queued, inFlight, of, other)
			}
			before := figures()
			s.Explainer(0)(a)
			if after := figures(); after != before {
				t.Errorf("Explain changed %s to %s", before, after)
			}
			if err := newChecker().check(s); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFlowFigures: the figures of all flows add up.
func TestFlowFigures(t *testing.T) {
	l := newLoad(t, "mqfq-sticky", 25, 250)
	for range 1000 {
		l.step()
	}
	var sum FlowStats
	for _, id := range l.flows {
		f, ok := l.s.Flow(id)
		check.That(t, ok, "flow %s", id)
		check.Equal(t, f.Flow, id)
		sum.Queued += f.Queued
		sum.InFlight += f.InFlight
	}
	queued, inFlight := l.s.Len()
	check.Equal(t, queued, sum.Queued)
	check.Equal(t, inFlight, sum.InFlight)
	if _, ok := l.s.Flow(FlowID{"no", "such"}); ok {
		t.Error("an unknown flow is known")
	}
}
