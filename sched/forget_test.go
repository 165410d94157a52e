package sched

import (
	"fmt"
	"testing"
	"time"
)

// once has a flow run once, from the time on, and gives when it has ended.
func once(t *testing.T, s *Scheduler, now time.Duration, id uint64, f FlowID) time.Duration {
	t.Helper()
	s.Enqueue(now, Item{ID: id, Flow: f})
	if c, ok := s.Next(now); !ok || c.Item != id {
		t.Fatalf("at %s: %+v, %t; want %d to go", now, c, ok, id)
	}
	now += time.Second
	s.Done(now, id, Usage{Service: time.Second})
	return now
}

// TestForgottenInTime: what was learnt of a flow is kept for as long as the
// configuration says after its TTL, and no longer.
func TestForgottenInTime(t *testing.T) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus", "mqfq"} {
		cfg, _ := Defaults(policy)
		cfg.KeepInactive = time.Minute
		s, err := NewPolicy(policy, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.AddDevice(0, 0, 1)
		f := FlowID{"n", "f"}
		once(t, s, 0, 1, f)
		inactive, _ := s.Deadline()
		s.Tick(inactive)
		if st, ok := s.Flow(f); !ok || st.State != Inactive {
			t.Fatalf("%s: %+v, %t after the TTL; want it inactive", policy, st, ok)
		}
		gone, some := s.Deadline()
		if want := inactive + cfg.KeepInactive; !some || gone != want {
			t.Errorf("%s: forgotten at %s, %t; want %s", policy, gone, some, want)
		}
		s.Tick(gone - 1)
		if _, ok := s.Flow(f); !ok {
			t.Errorf("%s: forgotten before its time", policy)
		}
		s.Tick(gone)
		if _, ok := s.Flow(f); ok || len(s.byName) > 0 {
			t.Errorf("%s: known after its time: %t, with %d namespaces", policy, ok, len(s.byName))
		}
	}
}

// TestPlacesAreGivenAgain: flows that come and go for ever, more than are known at
// any time, need no more places than those that are.
func TestPlacesAreGivenAgain(t *testing.T) {
	const known, all = 20, 1000
	cfg, _ := Defaults("sticky-plus")
	cfg.MaxFlows = known
	s, err := NewPolicy("sticky-plus", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.AddDevice(0, 0, 1)
	now := time.Duration(0)
	for i := range uint64(all) {
		for _, stays := range []string{"a", "b"} { // their namespace is never empty
			now = once(t, s, now, 3*i+1+uint64(stays[0]-'a'), FlowID{"n", stays})
		}
		now = once(t, s, now, 3*i+3, FlowID{"n", fmt.Sprint("passing-", i)})
		for at, ok := s.Deadline(); ok && at <= now+cfg.TTLMax; at, ok = s.Deadline() {
			s.Tick(at)
		}
		now += cfg.TTLMax
	}
	g := s.byName["n"]
	if g.places > known+1 || s.flows.n > known+1 || g.eligible.wide > 4*(known+1) {
		t.Errorf("%d places of the namespace, %d of flows, %d of the tournament; at most %d flows are known",
			g.places, s.flows.n, g.eligible.wide, known)
	}
}
