package sched

import (
	"slices"
	"testing"
	"time"
)

// once has a flow run once, from the time on, and gives when it has ended.
func once(t *testing.T, s *Scheduler, now time.Duration, id uint64, f FlowID) time.Duration {
	t.Helper()
	s.Enqueue(now, Invocation{ID: id, Flow: f})
	if c, ok := s.Next(now); !ok || c.Invocation != id {
		t.Fatalf("at %s: %+v, %t; want %d to go", now, c, ok, id)
	}
	now += time.Second
	s.Done(now, id, Usage{Service: time.Second})
	return now
}

// TestForgottenInTime: what was learnt of a flow is kept for as long after its
// TTL as is configured, and no longer.
func TestForgottenInTime(t *testing.T) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus", "mqfq"} {
		s := newScheduler(t, policy, nil, func(c *Config) { c.KeepInactive = time.Minute })
		s.AddDevice(0, 0, 1)
		f := FlowID{"n", "f"}
		once(t, s, 0, 1, f)
		inactive, _ := s.Deadline()
		s.Tick(inactive)
		if st, ok := s.Flow(f); !ok || st.State != Inactive {
			t.Fatalf("%s: %+v, %t after the TTL; want it inactive", policy, st, ok)
		}
		gone, some := s.Deadline()
		if want := inactive + time.Minute; !some || gone != want {
			t.Errorf("%s: forgotten at %s, %t; want %s", policy, gone, some, want)
		}
		s.Tick(gone - 1)
		if _, ok := s.Flow(f); !ok {
			t.Errorf("%s: forgotten before its time", policy)
		}
		s.Changes()
		s.Tick(gone)
		if got, want := s.Changes(), []Change{{Flow: f, From: Inactive, To: Inactive, Forgotten: true}}; !slices.Equal(got, want) {
			t.Errorf("%s: changes %+v, want %+v", policy, got, want)
		}
		if _, ok := s.Flow(f); ok || len(s.groups) > 0 {
			t.Errorf("%s: known after its time: %t, with %d namespaces", policy, ok, len(s.groups))
		}
	}
}

// TestNewRevisionIsLearnedAtOnce: the first run after it counts in full.
func TestNewRevisionIsLearnedAtOnce(t *testing.T) {
	s := newScheduler(t, "sticky-plus", nil, nil)
	s.AddDevice(0, 0, 1)
	f, now := FlowID{"n", "f"}, time.Duration(0)
	for id := range uint64(20) {
		now = once(t, s, now, id, f)
	}
	s.Revised(now, f)
	if got := time.Duration(s.usual(s.flows[f])); got != time.Second {
		t.Errorf("%s is expected before the first run, want what was learned before, 1s", got)
	}
	s.Enqueue(now, Invocation{ID: 20, Flow: f})
	s.Next(now)
	s.Done(now+time.Minute, 20, Usage{Service: time.Minute})
	if got := time.Duration(s.usual(s.flows[f])); got != time.Minute {
		t.Errorf("%s is expected after a first run of a minute", got)
	}
}
