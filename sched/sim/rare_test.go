package sim

import "testing"

// TestARareCallIsNotLost: a call a minute behind a hundred busy functions waits
// no longer under the sticky policies than by order of arrival, the first hundred
// cold starts included. Without the rule on overdue heads it waits far longer.
func TestARareCallIsNotLost(t *testing.T) {
	onlyCores(t)
	t.Parallel()
	spec := DefaultSpec()
	spec.Kind, spec.Load = "rare", 1.1
	spec.Duration /= 3
	wait := func(policy string, slowdown float64) float64 {
		p := params(t, policy)
		p.Memory, p.Pool.Size = 80*gib, 128
		if slowdown >= 0 {
			p.Sched.Slowdown = slowdown
		}
		w, err := spec.For(params(t, mqfq)).Build()
		if err != nil {
			t.Fatal(err)
		}
		fns := run(t, w, p).Functions
		return fns[len(fns)-1].Latency.Mean / 1000
	}
	arrival := wait("fcfs", -1)
	for _, policy := range []string{mqfq, plus} {
		with, without := wait(policy, -1), wait(policy, 0)
		t.Logf("%s: %.0f s, without the rule %.0f s, fcfs %.0f s", policy, with, without, arrival)
		if with > arrival/2 || without < arrival {
			t.Errorf("%s: %.0f s, without the rule %.0f s, by order of arrival %.0f s", policy, with, without, arrival)
		}
	}
}
