package scheduler

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestNamespaceLimit: runs of a namespace wait for each other if together they would exceed
// the namespace's limit on a device. The namespace's idle memory is evicted for them. Other
// namespaces are not affected.
func TestNamespaceLimit(t *testing.T) {
	c := config("fcfs", 1)
	c.Tokens.Max = 3
	c.PrefetchActive = false
	c.NamespaceLimits = map[string]int64{"n": 6 * gib}
	s := newScript(t, c)
	x := s.submit("create 1, start 1 in 1 on 0 cold", fn("x", 4*gib))
	y := s.submit("", fn("y", 4*gib))
	check.Contains(t, s.l.Explain(fn("y", 0).Flow).String(), "namespace n has reached its limit of 6144 MiB of device memory (whisk.gpu.namespace-limits)", "y is delayed")
	other := fn("z", 4*gib)
	other.Flow.Namespace = "m"
	s.submit("create 2, start 3 in 2 on 0 cold", other)
	s.run("create 3, evict 1 epoch 1, start 2 in 3 on 0 cold", x, 1, 4*gib)
	s.holds("", 1, 4*gib, 0)
	s.expect("", Event{Kind: Moved, Container: 1, Epoch: 1, OK: true})
	check.That(t, s.l.permits(s.l.devices[0], s.l.flows[fn("x", 0).Flow].newest(), nil, gpu.MemoryRequest{Bytes: 2 * gib}), "2 of 6 GiB beside 4 are not permitted")
	again := s.submit("", fn("x", 4*gib))
	s.run("prefetch 1 epoch 2, evict 3 epoch 1", y, 3, 4*gib)
	s.holds("", 1, 4*gib, 4*gib)
	s.expect("start 4 in 1 on 0 host-warm", Event{Kind: Moved, Container: 1, Epoch: 2, OK: true, Bytes: gib})
	// A run that needs more than the whole limit gets the whole limit, alone.
	s.run("", again, 1, 4*gib)
	s.submit("create 4, evict 1 epoch 3", fn("big", 9*gib))
	s.holds("start 5 in 4 on 0 cold", 3, 4*gib, 0)
	check.Equal(t, s.l.devices[0].ledger.Data(4), 6*gib, "bytes were promised")
}

// TestNamespaceLimitRemoves: idle memory that cannot be moved is freed by removing its
// container.
func TestNamespaceLimitRemoves(t *testing.T) {
	c := config("fcfs", 1)
	c.NamespaceLimits = map[string]int64{"*": 6 * gib}
	s := newScript(t, c)
	x := s.submit("create 1, start 1 in 1 on 0 cold", fn("x", 4*gib))
	s.run("", x, 1, 4*gib)
	y := s.submit("create 2, evict 1 epoch 1, start 2 in 2 on 0 cold", fn("y", 4*gib))
	s.expect("", Event{Kind: Moved, Container: 1, Epoch: 1, OK: true}) // nothing has moved
	s.run("", y, 2, 1*gib)
	s.submit("create 3, remove 1, start 3 in 3 on 0 cold", fn("z", 4*gib))
}

// TestNamespaceLimitWithoutShim: memory that no shim reports counts for the namespace's limit,
// too. Idle memory of this kind is freed by removing its container.
func TestNamespaceLimitWithoutShim(t *testing.T) {
	c := config("fcfs", 1)
	c.Tokens.Max = 3
	c.NamespaceLimits = map[string]int64{"n": 6 * gib}
	s := newScript(t, c)
	off := func(name string, memory int64) *Function {
		f := fn(name, memory)
		f.NoShim = true
		return f
	}
	x := s.submit("create 1, start 1 in 1 on 0 cold", off("x", 4*gib))
	s.submit("", fn("y", 4*gib))
	s.submit("", off("z", 4*gib))
	s.run("create 2, remove 1, start 2 in 2 on 0 cold", x, 1, 4*gib)
}

// TestLimitIdlesNoToken: a flow that waits for its namespace's limit leaves the other
// tokens to flows beyond the window.
func TestLimitIdlesNoToken(t *testing.T) {
	for _, policy := range []string{"sticky-plus", "mqfq-sticky", "least-time"} {
		c := config(policy, 1)
		c.Tokens.Max = 4
		c.NamespaceLimits = map[string]int64{"a": gib}
		limited := &caller{Function: function("a", "x", gib), keep: 3, run: 7 * time.Second}
		other := &caller{Function: function("b", "y", gib), keep: 8, run: 5 * time.Second}
		newFixture(t, c, limited, other).until(time.Hour)
		check.AtLeast(t, limited.service, 58*time.Minute, "%s", policy)
		check.AtLeast(t, other.service, 170*time.Minute, "%s", policy)
	}
}
