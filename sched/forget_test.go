package sched

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// once has a flow run once, from the time on, and gives when it has ended.
func once(t *testing.T, s *Scheduler, now time.Duration, id uint64, f FlowID) time.Duration {
	t.Helper()
	s.Enqueue(now, Invocation{ID: id, Flow: f})
	c, ok := s.Next(now)
	check.That(check.Must(t), ok, "at %s", now)
	check.Equal(check.Must(t), c.Invocation, id, "at %s", now)
	now += time.Second
	s.Done(now, id, Usage{Service: time.Second})
	return now
}

// TestForgottenInTime: the estimates of a flow are kept for as long after its
// TTL as is configured, and no longer.
func TestForgottenInTime(t *testing.T) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus", "least-time"} {
		s := newScheduler(t, policy, everywhere{}, func(c *Config) { c.KeepInactive = time.Minute })
		s.AddDevice(0, 0, 1)
		f := FlowID{"n", "f"}
		once(t, s, 0, 1, f)
		inactive, _ := s.Deadline()
		s.Tick(inactive)
		st, ok := s.Flow(f)
		check.That(check.Must(t), ok, "%s, after the TTL", policy)
		check.Equal(check.Must(t), st.State, Inactive, "%s, after the TTL", policy)
		gone, some := s.Deadline()
		check.That(t, some, "%s: there is a deadline", policy)
		check.Equal(t, gone, inactive+time.Minute, "%s", policy)
		s.Tick(gone - 1)
		if _, ok := s.Flow(f); !ok {
			t.Errorf("%s: forgotten before its time", policy)
		}
		s.Changes()
		s.Tick(gone)
		check.EqualSlices(t, s.Changes(), []Change{{Flow: f, From: Inactive, To: Inactive, Forgotten: true}}, "%s", policy)
		_, ok = s.Flow(f)
		check.That(t, !ok, "%s: forgotten after its time", policy)
		check.Equal(t, len(s.groups), 0, "%s, after its time", policy)
	}
}

// TestNewRevisionIsTriedAtOnce: a function pauses after three failures. Its update ends the
// pause, and failures of runs that began before the update do not count.
func TestNewRevisionIsTriedAtOnce(t *testing.T) {
	s := newScheduler(t, "fcfs", everywhere{}, nil)
	s.AddDevice(0, 0, 5)
	f := FlowID{"n", "f"}
	for id := range uint64(5) {
		s.Enqueue(0, Invocation{ID: id, Flow: f})
		s.Next(0)
	}
	for id := range uint64(3) {
		s.Done(0, id, Usage{Failed: true})
	}
	s.Enqueue(0, Invocation{ID: 5, Flow: f})
	_, granted := s.Next(0)
	check.That(t, !granted, "granted during the pause")
	check.Equal(t, s.Explainer(0)(f).Rule, RuleBackoff)
	s.Revised(0, f)
	s.Done(0, 3, Usage{Failed: true, Outdated: true})
	check.Equal(t, s.Explainer(0)(f).Failed, 0, "failures of the new revision")
	_, granted = s.Next(0)
	check.That(t, granted, "the new revision waits: %s", s.Explainer(0)(f))
	for id := uint64(6); id < 8; id++ {
		s.Enqueue(0, Invocation{ID: id, Flow: f})
		s.Next(0)
	}
	for id := uint64(5); id < 8; id++ {
		s.Done(0, id, Usage{Failed: true})
	}
	s.Done(0, 4, Usage{Outdated: true})
	s.Enqueue(0, Invocation{ID: 8, Flow: f})
	_, granted = s.Next(0)
	check.That(t, !granted, "a success of the former revision ended the pause")
}

// TestNewRevisionIsLearnedAtOnce: the first run after it counts in full.
func TestNewRevisionIsLearnedAtOnce(t *testing.T) {
	s := newScheduler(t, "sticky-plus", everywhere{}, nil)
	s.AddDevice(0, 0, 1)
	f, now := FlowID{"n", "f"}, time.Duration(0)
	for id := range uint64(20) {
		now = once(t, s, now, id, f)
	}
	s.Revised(now, f)
	check.Equal(t, time.Duration(s.usual(s.flows[f])), time.Second, "before the first run")
	s.Enqueue(now, Invocation{ID: 20, Flow: f})
	s.Next(now)
	s.Done(now+time.Minute, 20, Usage{Service: time.Minute})
	check.Equal(t, time.Duration(s.usual(s.flows[f])), time.Minute, "after a first run of a minute")
}
