package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// idleOut lets time pass until no container is left.
func (s *script) idleOut() {
	s.t.Helper()
	for len(s.l.containers) > 0 {
		at, ok := s.l.Deadline()
		check.That(check.Must(s.t), ok, "containers stay for ever")
		s.now = max(s.now, at)
		s.take(Event{Kind: Tick})
		for id, c := range s.l.containers {
			if c.removing {
				s.take(Event{Kind: Removed, Container: id})
			}
		}
	}
}

// known returns the known memory and cold starts of a function.
func (s *script) known(f *Function) string {
	setup := s.l.Work(f.Flow).Placement(0).Setup
	return fmt.Sprintf("%d GiB, cold in %s", s.l.Footprint(f.Flow, f.Key)/gib, setup)
}

// TestMeasurementsOutliveContainers: a function's measured memory counts until the policy
// forgets the function, and no longer.
func TestMeasurementsOutliveContainers(t *testing.T) {
	c := config("sticky-plus", 1)
	c.IdleTimeout = 10 * time.Minute
	c.Sched.KeepInactive = time.Hour
	s := newScript(t, c)
	f, g := fn("f", 0), fn("g", 10*gib)
	s.spend(s.submit("create 1, start 1 in 1 on 0 cold", f), 1, 10*gib, 15*time.Second, 0)
	s.idleOut()
	s.now += 20 * time.Minute
	s.take(Event{Kind: Tick})
	got, want := s.known(f), "10 GiB, cold in 15s"
	check.Equal(t, got, want, "without its container")
	two := s.submit("create 2, start 2 in 2 on 0 cold", g)
	three := s.submit("", f) // two of 10 GiB do not fit on 16
	s.holds("", 2, 10*gib, 10*gib)
	s.expect("create 3, evict 2 epoch 1", Event{Kind: Ended, Invocation: two, Keep: true})
	s.expect("", Event{Kind: Left, Invocation: two, Keep: true})
	s.holds(fmt.Sprintf("start %d in 3 on 0 cold", three), 2, 10*gib, 0)
	s.spend(three, 3, 10*gib, 15*time.Second, 0)
	s.idleOut()
	for range 3 {
		s.now += time.Hour
		s.take(Event{Kind: Tick})
	}
	check.Equal(t, len(s.l.flows), 0, "flows are known")
}

// TestMeasurementsAreOfARevision: a new revision is reserved its requested memory, and a
// returning revision its measured memory. Only a few revisions are kept.
func TestMeasurementsAreOfARevision(t *testing.T) {
	c := config("sticky-plus", 1)
	c.IdleTimeout = time.Minute
	policy := &counted{}
	policy.with(&c)
	s := newScript(t, c)
	f := fn("f", gib)
	run := func(key string, memory int64, setup time.Duration) {
		t.Helper()
		f.Key = key
		s.n++
		s.take(Event{Kind: Submitted, Invocation: s.n, Function: f})
		s.spend(s.n, s.l.created, memory, setup, 0)
		s.idleOut()
	}
	run("1", 10*gib, 15*time.Second)
	f.Key = "2"
	two := s.submit("create 2, start 2 in 2 on 0 cold", f)
	got, want := s.known(f), "0 GiB, cold in 15s"
	check.Equal(t, got, want, "the second revision")
	s.spend(two, 2, 2*gib, 3*time.Second, 0)
	s.idleOut()
	run("1", 8*gib, 15*time.Second)
	got, want = s.known(f), "10 GiB, cold in 15s"
	check.Equal(t, got, want, "the first revision again")
	for i := range 20 {
		run(fmt.Sprint("later", i), gib, time.Second)
	}
	check.Equal(t, policy.revised, 21, "the policy was told")
	check.Equal(t, len(s.l.flows[f.Flow].revs), 1+keptRevisions, "revisions are kept")
}
