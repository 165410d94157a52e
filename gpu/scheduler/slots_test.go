package scheduler

import "testing"

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
