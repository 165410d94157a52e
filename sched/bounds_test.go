package sched

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestOneShots has many functions invoked once: the flows that are known stay within
// MaxFlows, and after KeepInactive nothing is left.
func TestOneShots(t *testing.T) {
	for _, namespaces := range []bool{false, true} {
		s := newScheduler(t, "mqfq-sticky", everywhere{}, func(c *Config) { c.MaxFlows, c.Namespaces, c.TTLMax = 1000, namespaces, time.Second })
		s.AddDevice(0, 0, 4)
		s.Changes()
		now := time.Duration(0)
		n := 100_000
		if testing.Short() || raced {
			n = 10_000
		}
		for i := range n {
			now += 2 * time.Millisecond
			s.Enqueue(now, Invocation{ID: uint64(i), Flow: FlowID{fmt.Sprint("ns", i), "once"}})
			c, ok := s.Next(now)
			if !ok {
				t.Fatal("nothing to do")
			}
			s.Done(now, c.Invocation, Usage{Service: time.Millisecond})
			if at, ok := s.Deadline(); ok && at <= now {
				s.Tick(now)
			}
			s.Changes()
			if len(s.flows) > 1001 {
				t.Fatalf("%d flows known", len(s.flows))
			}
		}
		check.AtMost(t, len(s.flows), 1001)
		check.AtMost(t, len(s.groups), 1001)
		check.AtMost(t, len(s.invocations), 10)
		for at, ok := s.Deadline(); ok; at, ok = s.Deadline() {
			now = max(now, at)
			if now > 24*time.Hour {
				break
			}
			s.Tick(now)
		}
		check.Equal(t, len(s.flows), 0, "left")
		if _, ok := s.Deadline(); ok {
			t.Error("a deadline with nothing known")
		}
	}
}

// TestFlowMemory measures what one flow costs, its part of every index
// included.
func TestFlowMemory(t *testing.T) {
	for _, p := range []string{"mqfq-sticky", "sticky-plus", "fewest-runs"} {
		const n = 5_000
		ids := make([]FlowID, n)
		for i := range ids {
			ids[i] = FlowID{"namespace", fmt.Sprint("function", i)}
		}
		cfg := testPolicy(p).Defaults()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s, _ := testPolicy(p).New(cfg, everywhere{})
		s.AddDevice(0, 0, 2)
		for i, id := range ids {
			s.Enqueue(0, Invocation{ID: uint64(i), Flow: id})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		per := float64(after.HeapAlloc-before.HeapAlloc) / n
		t.Logf("%s: %.0f bytes a flow with one invocation queued", p, per)
		if per > 1024 {
			t.Errorf("%s: %.0f bytes a flow", p, per)
		}
		runtime.KeepAlive(s)
	}
}

// TestRebase runs two schedulers, one of which moves its virtual times down
// again and again: they must choose alike.
func TestRebase(t *testing.T) {
	for _, p := range []string{"mqfq-sticky", "least-time", "sticky-plus"} {
		for _, namespaces := range []bool{false, true} {
			cfg := testPolicy(p).Defaults()
			cfg.Namespaces = namespaces
			a, b := newLoadWith(t, p, cfg, 40, 400), newLoadWith(t, p, cfg, 40, 400)
			b.s.rebaseAt = int64(time.Minute)
			for k := range 5000 {
				a.step()
				b.step()
				if err := newChecker().check(b.s); err != nil {
					t.Fatalf("%s step %d: %v", p, k, err)
				}
				if !slices.Equal(a.running, b.running) {
					t.Fatalf("%s step %d: %v, rebased %v", p, k, a.running, b.running)
				}
			}
			for _, g := range b.s.groups {
				if gvt := max(b.s.root.clock, g.level.clock); gvt > b.s.rebaseAt {
					t.Errorf("%s: not rebased, GVT %s", p, time.Duration(gvt))
				}
			}
		}
	}
}

// TestSizeRank: longer times never rank before shorter ones, and only times within a factor
// of two of each other rank alike.
func TestSizeRank(t *testing.T) {
	least := int64(0)
	for size := int64(1); size < 1<<51; size += size/100 + 1 {
		rank := sizeRank(size)
		switch {
		case rank < sizeRank(least):
			t.Fatalf("%d ranks before %d", size, least)
		case rank > sizeRank(least):
			least = size
		case rank > 0 && size >= 2*least:
			t.Fatalf("%d ranks with %d", size, least)
		}
	}
	if sizeRank(0) != 0 {
		t.Error("no size has a rank of its own")
	}
}
