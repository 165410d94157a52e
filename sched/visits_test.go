package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// visits counts the flows that are ranked, and those whose placements are asked for.
type visits struct{ ranked, asked int }

func (v *visits) Placements(FlowID) func(int) Placement {
	v.asked++
	return func(d int) Placement { return Placement{Fits: d > 0, Unfit: d == 1} }
}

// TestEventsVisitFew: no event ranks more than a few of very many flows, or asks for their
// placements: devices that come and go and change D, and the end of many TTLs at once.
func TestEventsVisitFew(t *testing.T) {
	const flows, most = 10_000, 3 * maxRefreshed
	for _, policy := range bounded() {
		cfg, _ := Defaults(policy)
		cfg.MaxFlows = 2 * flows
		v := &visits{}
		s, err := New(policy, cfg, v)
		if err != nil {
			t.Fatal(err)
		}
		key, now := s.rules.key, time.Duration(0)
		s.rules.key = func(s *Scheduler, f *flow) (int64, int64) {
			v.ranked++
			return key(s, f)
		}
		event := func(name string, do func()) {
			now += 10 * time.Millisecond
			*v = visits{}
			do()
			s.Next(now)
			check.AtMost(t, v.ranked, most, "%s, %s", policy, name)
			check.AtMost(t, v.asked, most, "%s, %s", policy, name)
			check.AtMost(t, len(s.Changes()), most, "%s, %s", policy, name)
		}
		for i := range flows {
			event("enqueue", func() {
				s.Enqueue(now, Invocation{ID: uint64(i), Flow: FlowID{fmt.Sprint("ns", i%10), fmt.Sprint("f", i)}})
			})
		}
		for i := range 20 {
			event("device", func() { s.AddDevice(now, i%3, 1) })
			event("tokens", func() { s.SetTokens(now, i%3, 2) })
			event("resized", func() { s.Resized(now) })
			event("loss", func() { s.RemoveDevice(now, i%3) })
			event("tick", func() { s.Tick(now) })
		}
		for i := range flows {
			event("cancel", func() { s.Cancel(now, uint64(i)) })
		}
		now += 24 * time.Hour
		for _, due := s.Deadline(); due; _, due = s.Deadline() {
			known := len(s.flows)
			event("expiry", func() { s.Tick(now) })
			if n := known - len(s.flows); n > maxTicked {
				t.Fatalf("%s: one Tick forgot %d flows", policy, n)
			}
			if now > 26*time.Hour*2 {
				t.Fatalf("%s: flows are not forgotten", policy)
			}
		}
	}
}
