package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// picky is a View in which flows fit where fits is true.
type picky struct {
	fits func(f FlowID, device int) bool
}

func (p picky) Placements(f FlowID) func(int) Placement {
	return func(device int) Placement { return Placement{Fits: p.fits(f, device)} }
}

// TestMisfitDelaysNoOther: a function that fits on no device that is left does not
// stop global virtual time; all others run as if it were not there, and the shares of
// two of them beside it are as fair as ever.
func TestMisfitDelaysNoOther(t *testing.T) {
	for _, policy := range bounded() {
		for _, namespaces := range []bool{false, true} {
			s := newScheduler(t, policy, picky{func(f FlowID, _ int) bool { return f.Function != "big" }}, func(c *Config) { c.Namespaces = namespaces })
			s.AddDevice(0, 0, 2)
			id := uint64(0)
			enqueue := func(n int, f FlowID) {
				for range n {
					id++
					s.Enqueue(0, Invocation{ID: id, Flow: f})
				}
			}
			enqueue(3, FlowID{"ns0", "big"})
			enqueue(200, FlowID{"ns1", "a"})
			enqueue(200, FlowID{"ns2", "b"})
			runs := map[FlowID]int{}
			now := time.Duration(0)
			var flying []Choice
			for range 2000 {
				for {
					c, ok := s.Next(now)
					if !ok {
						break
					}
					runs[c.Flow]++
					flying = append(flying, c)
				}
				more := runs[FlowID{"ns1", "a"}] - runs[FlowID{"ns2", "b"}]
				check.AtMost(check.Must(t), more, 30, "%s: runs of a beyond those of b", policy)
				check.AtLeast(check.Must(t), more, -30, "%s: runs of a beyond those of b", policy)
				if len(flying) > 0 {
					now += time.Second
					s.Done(now, flying[0].Invocation, Usage{Service: time.Second})
					flying = flying[1:]
					continue
				}
				at, ok := s.Deadline()
				if !ok || at > now+time.Second {
					break
				}
				now = at
				s.Tick(now)
			}
			if queued, _ := s.Len(); queued != 3 {
				t.Errorf("%s, namespaces %t: %d still wait beside the 3 that fit nowhere, after %s", policy, namespaces, queued-3, now)
			}
		}
	}
}

// TestMisfitKeepsItsClaim: a function that fits on one of two devices alone gets
// its share of it against one that fits on both, and what the other has of the second
// device costs the first nothing.
func TestMisfitKeepsItsClaim(t *testing.T) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus", "mqfq"} {
		s := newScheduler(t, policy, picky{func(f FlowID, d int) bool { return f.Function != "big" || d == 0 }}, nil)
		s.AddDevice(0, 0, 2)
		s.AddDevice(0, 1, 2)
		id, now, used := uint64(0), time.Duration(0), map[string]int{}
		next := map[int]time.Duration{}
		var flying []Choice
		for now < 2000*time.Second {
			for _, f := range []string{"big", "hot"} {
				for st, _ := s.Flow(FlowID{"ns", f}); st.Queued < 20; st.Queued++ {
					id++
					s.Enqueue(now, Invocation{ID: id, Flow: FlowID{"ns", f}})
				}
			}
			for {
				c, ok := s.Next(now)
				if !ok {
					break
				}
				flying = append(flying, c)
				used[fmt.Sprint(c.Flow.Function, " on ", c.Device)]++
				next[c.Device]++
			}
			now += 500 * time.Millisecond
			s.Done(now, flying[0].Invocation, Usage{Service: time.Second})
			flying = flying[1:]
		}
		t.Logf("%s: %v", policy, used)
		if used["big on 0"] < 3*used["hot on 0"] {
			t.Errorf("%s: %v: the flow that fits on device 0 alone is kept from it", policy, used)
		}
		if used["hot on 1"] < 1000 {
			t.Errorf("%s: %v: device 1 idles", policy, used)
		}
	}
}

// TestMisfitsAreNotForgotten: behind very many flows that fit nowhere the one
// that does is found, and one that comes to fit as well.
func TestMisfitsAreNotForgotten(t *testing.T) {
	for _, policy := range Policies() {
		cfg, _ := Defaults(policy.Name)
		cfg.Overrun = time.Hour
		fitting := "f1900"
		s, err := New(policy.Name, cfg, picky{func(f FlowID, _ int) bool { return f.Function == fitting }})
		if err != nil {
			t.Fatal(err)
		}
		s.AddDevice(0, 0, 1)
		for i := range 2000 {
			s.Enqueue(0, Invocation{ID: uint64(i), Flow: FlowID{fmt.Sprint("ns", i%7), fmt.Sprint("f", i)}})
		}
		now := time.Duration(0)
		grant := func(want string) Choice {
			for range 3000 {
				if c, ok := s.Next(now); ok {
					if c.Flow.Function != want {
						t.Fatalf("%s: granted %s, which does not fit", policy.Name, c.Flow)
					}
					return c
				}
				at, ok := s.Deadline()
				if !ok {
					t.Fatalf("%s: at %s nothing is to come", policy.Name, now)
				}
				check.AtMost(check.Must(t), at, now+time.Second, "%s: the deadline", policy.Name)
				now = max(now, at)
				s.Tick(now)
			}
			t.Fatalf("%s: %s is not found", policy.Name, want)
			return Choice{}
		}
		c := grant("f1900")
		fitting = "f3"
		s.Done(now, c.Invocation, Usage{Service: time.Second})
		grant("f3")
		if err := newChecker().check(s); err != nil {
			t.Error(err)
		}
	}
}
