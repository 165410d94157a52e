package scheduler

import (
	"testing"
	"time"
)

// TestContainerUsedLastTakesTheRun: its memory is the likeliest to be on the device.
func TestContainerUsedLastTakesTheRun(t *testing.T) {
	c := config("fcfs", 1)
	c.Tokens.Max = 4
	s := newScript(t, c)
	f := fn("f", gib)
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	two := s.submit("create 2, start 2 in 2 on 0 busy-cold", f)
	s.run("", two, 2, gib)
	s.run("", one, 1, gib)
	s.submit("start 3 in 1 on 0 gpu-warm", f)
	s.submit("start 4 in 2 on 0 gpu-warm", f)
}

// TestRunsShareAContainer: once it is initialised a container takes as many runs as
// its width, before an idle one does, and none when it has failed.
func TestRunsShareAContainer(t *testing.T) {
	c := config("fcfs", 1)
	c.Tokens.Max = 4
	s := newScript(t, c)
	f := fn("f", gib)
	f.Width = 2
	s.submit("create 1, start 1 in 1 on 0 cold", f)
	two := s.submit("create 2, start 2 in 2 on 0 busy-cold", f)
	s.expect("", Event{Kind: Initialized, Container: 1})
	s.run("", two, 2, gib)
	three := s.submit("start 3 in 1 on 0 gpu-warm", f)
	s.submit("start 4 in 2 on 0 gpu-warm", f)
	s.expect("", Event{Kind: Failed, Container: 1})
	s.expect("", Event{Kind: Left, Invocation: three, Keep: true})
	s.submit("start 5 in 2 on 0 gpu-warm", f)
}

// TestOnlyIdleContainersAreRemoved for a container of another function.
func TestOnlyIdleContainersAreRemoved(t *testing.T) {
	c := config("fcfs", 1)
	c.Pool.Size = 1
	s := newScript(t, c)
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", gib))
	s.submit("", fn("g", gib))
	s.run("remove 1, create 2, start 2 in 2 on 0 cold", one, 1, gib)
}

// TestPoolOfNoneKeepsNoContainer: every run has a cold start.
func TestPoolOfNoneKeepsNoContainer(t *testing.T) {
	c := config("fcfs", 1)
	c.Pool.Size = 0
	s := newScript(t, c)
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", gib))
	s.run("remove 1", one, 1, gib)
}

// twoContainers has a function run in two containers of 5 GiB, in container 1 last. Its
// invocations are 1 and 2.
func (s *script) twoContainers(f *Function) {
	s.t.Helper()
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	two := s.submit("create 2, start 2 in 2 on 0 busy-cold", f)
	s.run("", two, 2, 5*gib)
	s.now += time.Second
	s.run("", one, 1, 5*gib)
}

// TestContainerAboutToBeFree: between the end of a run and its leaving, the next run of the
// function gets that container, not the function's idle one whose memory is on the host. An
// idle container with its memory on the device serves the run at once.
func TestContainerAboutToBeFree(t *testing.T) {
	for _, policy := range []string{"fcfs", "mqfq-sticky"} {
		s := newScript(t, config(policy, 1))
		f := fn("f", 5*gib)
		s.twoContainers(f)
		s.submit("create 3, evict 2 epoch 1", fn("g", 9*gib))
		s.holds("start 3 in 3 on 0 cold", 2, 5*gib, 0)
		s.expect("", Event{Kind: Moved, Container: 2, Epoch: 1, Bytes: 5 * gib, OK: true})
		s.submit("start 4 in 1 on 0 gpu-warm", f)
		s.submit("", f)
		s.expect("", Event{Kind: Answered, Invocation: 4})
		s.expect("", Event{Kind: Ended, Invocation: 4, Keep: true})
		s.expect("start 5 in 1 on 0 gpu-warm", Event{Kind: Left, Invocation: 4, Keep: true})

		s = newScript(t, config(policy, 1))
		s.twoContainers(f)
		s.submit("create 3, start 3 in 3 on 0 cold", fn("g", gib))
		s.submit("start 4 in 1 on 0 gpu-warm", f)
		s.submit("", f)
		s.expect("", Event{Kind: Answered, Invocation: 4})
		s.expect("start 5 in 2 on 0 gpu-warm", Event{Kind: Ended, Invocation: 4, Keep: true})
	}
}

// TestMemoryOfEndedRunGivesWay: before a run has left its container, memory that its function
// does not need next is evicted before memory of a function with queued work.
func TestMemoryOfEndedRunGivesWay(t *testing.T) {
	for _, policy := range []string{"fcfs", "mqfq-sticky"} {
		c := config(policy, 1)
		c.Tokens.Max = 1
		s := newScript(t, c)
		queued := fn("queued", 5*gib)
		s.run("", s.submit("create 1, start 1 in 1 on 0 cold", queued), 1, 5*gib)
		s.submit("create 2, start 2 in 2 on 0 cold", fn("once", 5*gib))
		s.take(Event{Kind: Created, Container: 2})
		s.holds("", 2, 5*gib, 5*gib)
		s.submit("", fn("large", 9*gib))
		s.submit("", queued)
		s.expect("", Event{Kind: Answered, Invocation: 2})
		s.expect("create 3, evict 2 epoch 1", Event{Kind: Ended, Invocation: 2, Keep: true})
	}
}
