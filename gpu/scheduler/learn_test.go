package scheduler

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// spend lets a run that has started end after a time.
func (s *script) spend(invocation uint64, b Container, memory int64, setup, ran time.Duration) {
	s.t.Helper()
	s.now += setup + ran
	s.take(Event{Kind: Answered, Invocation: invocation})
	s.holds("", b, memory, memory)
	s.take(Event{Kind: Ended, Invocation: invocation, Keep: true, Setup: setup, Ran: ran})
	s.take(Event{Kind: Left, Invocation: invocation, Keep: true})
}

// TestColdRunsTeachNoInterference: their setup is not the effect of other runs.
func TestColdRunsTeachNoInterference(t *testing.T) {
	c := config("fcfs", 1)
	c.Tokens = gpu.TokensConfig{Max: 2, Dynamic: true, Threshold: 0.9, Smoothing: 0.5, Hold: time.Second, MinSamples: 1}
	s := newScript(t, c)
	f := fn("f", gib)
	f.Width = 1
	s.spend(s.submit("create 1, start 1 in 1 on 0 cold", f), 1, gib, 0, time.Second)
	s.spend(s.submit("start 2 in 1 on 0 gpu-warm", f), 1, gib, 0, time.Second)
	warm := s.submit("start 3 in 1 on 0 gpu-warm", f)
	cold := s.submit("create 2, start 4 in 2 on 0 busy-cold", f)
	s.now += time.Second
	for b, invocation := range []uint64{warm, cold} {
		s.holds("", Container(b+1), gib, gib)
		s.take(Event{Kind: Ended, Invocation: invocation, Keep: true, Ran: []time.Duration{time.Second, time.Minute}[b]})
	}
	check.Equal(t, s.l.devices[0].tokens.D(), 2, "tokens after a slow cold run")
}

// TestRepeatedOrderTeachesNoSpeed: either of the two may have been carried out.
func TestRepeatedOrderTeachesNoSpeed(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		s := newScript(t, config("fcfs", 1))
		one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", 10*gib))
		s.run("", one, 1, 10*gib)
		s.submit("create 2, evict 1 epoch 1", fn("g", 15*gib))
		if repeated {
			s.tick("evict 1 epoch 1")
		}
		s.now += 5 * time.Second
		s.take(Event{Kind: Moved, Container: 1, Epoch: 1, Bytes: 10 * gib, OK: true})
		check.That(t, (s.l.devices[0].speed.seen > 0) != repeated, "repeated %t, and the speed was learnt: %t", repeated, s.l.devices[0].speed.seen > 0)
	}
}

// TestDemandOfAContainer: the demand is the rate of the function's invocations times the
// duration of its cold start.
func TestDemandOfAContainer(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	slow, quick := fn("slow", gib), fn("quick", gib)
	a := s.submit("create 1, start 1 in 1 on 0 cold", slow)
	b := s.submit("create 2, start 2 in 2 on 0 cold", quick)
	s.spend(a, 1, gib, 10*time.Second, 0)
	s.spend(b, 2, gib, 2*time.Second, 0)
	s.l.cfg.Pool.Rule = gpu.DemandAware
	of := func(f *Function) float64 { return s.l.candidate(s.l.flows[f.Flow].newest().containers[0]).Demand }
	ratio := of(slow) / of(quick)
	check.AtLeast(t, ratio, 4.9, "a container that takes 10 s to create")
	check.AtMost(t, ratio, 5.1, "a container that takes 10 s to create")
}

// TestThrottledContainersGoFirst: their memory is the first to be evicted.
func TestThrottledContainersGoFirst(t *testing.T) {
	c := config("mqfq-sticky", 1)
	c.Tokens.Max, c.Sched.Overrun = 1, time.Second
	s := newScript(t, c)
	greedy := fn("greedy", gib)
	one := s.submit("create 1, start 1 in 1 on 0 cold", greedy)
	s.submit("", greedy)
	for range 2 {
		s.submit("", fn("modest", gib))
	}
	s.spend(one, 1, gib, 0, time.Minute)
	check.Equal(t, s.l.flowState(s.l.flows[greedy.Flow]), gpu.Throttled, "a function that leads by a minute stands")
}

// TestNoPrefetchBeyondALimit: memory of a function that becomes active stays on the
// host where it would exceed its namespace's limit.
func TestNoPrefetchBeyondALimit(t *testing.T) {
	c := config("mqfq-sticky", 1)
	c.Tokens.Max = 1
	c.NamespaceLimits = map[string]int64{"n": 8 * gib}
	s := newScript(t, c)
	f := fn("f", 6*gib)
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.run("", one, 1, 6*gib)
	two := s.submit("create 2, evict 1 epoch 1, start 2 in 2 on 0 cold", fn("g", 6*gib))
	s.holds("", 1, 6*gib, 0)
	s.expect("", Event{Kind: Moved, Container: 1, Epoch: 1, Bytes: 6 * gib, OK: true})
	s.run("", two, 2, 6*gib)
	s.now += time.Hour // f and g have no work for so long that they are not active
	s.expect("", Event{Kind: Tick})
	other := fn("h", gib)
	other.Flow.Namespace = "m"
	s.submit("create 3, start 3 in 3 on 0 cold", other)
	s.submit("", f)
}

// TestNoSlotIsLentWithoutAPool: the container of a run that has its answer is removed
// with it.
func TestNoSlotIsLentWithoutAPool(t *testing.T) {
	c := config("fcfs", 1)
	c.Pool.Size = 0
	s := newScript(t, c)
	f := fn("f", gib)
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.take(Event{Kind: Created, Container: 1})
	s.take(Event{Kind: Initialized, Container: 1})
	s.expect("", Event{Kind: Answered, Invocation: one})
	s.submit("create 2, start 2 in 2 on 0 busy-cold", f)
}

// TestGrantedRunWaitsForWhatRuns: one whose memory another has taken meanwhile is
// requeued only when nothing runs on its device any more and no logs are read there.
func TestGrantedRunWaitsForWhatRuns(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("h", 10*gib))
	s.run("", one, 1, 10*gib)
	f := fn("f", gib)
	f.NoShim = true // its memory stays as long as its container
	two := s.submit("create 2, start 2 in 2 on 0 cold", f)
	s.submit("create 3, evict 1 epoch 1", fn("g", 10*gib))
	inFlight := func() int { return s.flow(fn("g", 0)).InFlight }
	s.holds("remove 1", 2, 14*gib, 14*gib)
	s.expect("", Event{Kind: Removed, Container: 1})
	check.Equal(t, inFlight(), 1, "it was requeued while another ran")
	s.expect("", Event{Kind: Ended, Invocation: two})
	check.Equal(t, inFlight(), 1, "it was requeued while logs were read")
	s.expect("remove 2", Event{Kind: Left, Invocation: two})
	s.expect("start 3 in 3 on 0 cold", Event{Kind: Removed, Container: 2})
}
