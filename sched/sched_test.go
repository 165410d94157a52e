package sched

import (
	"testing"
	"time"
)

// TestServesAll drives each policy over a small load and sees every invocation done
// exactly once, with never more in flight than tokens.
func TestServesAll(t *testing.T) {
	for _, p := range Policies() {
		t.Run(p.Name, func(t *testing.T) {
			cfg, _ := Defaults(p.Name)
			s, err := New(p.Name, cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.AddDevice(0, 0, 2)
			for id := uint64(0); id < 60; id++ {
				f := FlowID{"ns", string(rune('a' + id%7))}
				s.Enqueue(time.Duration(id), Invocation{ID: id, Flow: f})
			}
			seen := map[uint64]bool{}
			now := time.Second
			for len(seen) < 60 {
				var running []uint64
				for {
					c, ok := s.Next(now)
					if !ok {
						break
					}
					if seen[c.Invocation] {
						t.Fatalf("invocation %d chosen twice", c.Invocation)
					}
					seen[c.Invocation] = true
					running = append(running, c.Invocation)
				}
				if len(running) == 0 || len(running) > 2 {
					t.Fatalf("%d in flight with 2 tokens", len(running))
				}
				now += time.Second
				for _, id := range running {
					s.Done(now, id, Usage{Service: time.Second})
				}
			}
			if queued, inFlight := s.Len(); queued != 0 || inFlight != 0 {
				t.Errorf("left over: %d queued, %d in flight", queued, inFlight)
			}
		})
	}
}
