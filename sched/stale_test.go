package sched

import (
	"fmt"
	"testing"
	"time"
)

// setups is a view on which each flow starts after a time of its own.
type setups struct {
	of    map[FlowID]time.Duration
	asked int
}

func (v *setups) Placements(id FlowID) func(int) Placement {
	v.asked++
	return func(int) Placement { return Placement{Start: Cold, Setup: v.of[id], Fits: true} }
}

// TestSetupsOfMany: when a device comes back to very many flows, no choice computes the
// setups of all, each grants, and after some the shortest is found among all.
func TestSetupsOfMany(t *testing.T) {
	const flows = 10_000
	v := &setups{of: map[FlowID]time.Duration{}}
	s := newScheduler(t, "sticky-plus", v, func(c *Config) { c.Wait, c.Locality, c.Slowdown = false, false, 0 })
	for i := range flows {
		f := FlowID{"n", fmt.Sprint(i)}
		v.of[f] = time.Hour - time.Duration(i%100)*time.Second
		s.Enqueue(0, Invocation{ID: uint64(i), Flow: f})
	}
	s.AddDevice(0, 0, 1)
	grants := 0
	for ; len(s.stale) > 0; grants++ {
		v.asked = 0
		c, ok := s.Next(0)
		if !ok {
			t.Fatalf("nothing is granted after %d grants", grants)
		}
		if v.asked > 2*maxRefreshed {
			t.Fatalf("grant %d asked for the placements of %d flows", grants, v.asked)
		}
		s.Done(0, c.Invocation, Usage{})
	}
	c, _ := s.Next(0)
	least := time.Hour
	for id, f := range s.flows {
		if f.queue.Len() > 0 {
			least = min(least, v.of[id])
		}
	}
	if got := v.of[c.Flow]; got > least*3/2 {
		t.Errorf("after %d grants the next has a setup of %s, the shortest %s", grants, got, least)
	}
}

// TestDevicesRankFew: a device that comes or goes, or a change of D, moves in the order
// at most the flows in flight.
func TestDevicesRankFew(t *testing.T) {
	s := newScheduler(t, "sticky-plus", nil, nil)
	s.AddDevice(0, 0, 1)
	for i := range 1000 {
		s.Enqueue(0, Invocation{ID: uint64(i), Flow: FlowID{"n", fmt.Sprint(i % 500)}})
	}
	s.Next(0)
	ranked, key := 0, s.rules.key
	s.rules.key = func(s *Scheduler, f *flow) (int64, int64) {
		ranked++
		return key(s, f)
	}
	for name, change := range map[string]func(){
		"more tokens":  func() { s.SetTokens(0, 0, 2); s.SetTokens(0, 0, 1) },
		"more devices": func() { s.AddDevice(0, 1, 1); s.RemoveDevice(0, 1) },
	} {
		ranked = 0
		change()
		s.Likely(0)
		if ranked > 2 {
			t.Errorf("%s, and back: %d flows were ranked, 1 is in flight", name, ranked)
		}
	}
}
