package scheduler

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// flow is the policy's figures of a function.
func (s *script) flow(f *Function) sched.FlowStats {
	s.t.Helper()
	got, ok := s.l.Flow(f.Flow)
	check.That(check.Must(s.t), ok, "%s is not known", f.Flow)
	return got
}

// served ends a run and lists the Served orders.
func (s *script) served(e Event) (all []Order) {
	s.t.Helper()
	e.At = s.now
	s.l.Take(e)
	for _, o := range s.l.Ready() {
		if o.Do == Served {
			all = append(all, o)
		}
	}
	return all
}

// TestServiceIsGrantToReturn: without the creation of the container, which can take no longer
// than the service.
func TestServiceIsGrantToReturn(t *testing.T) {
	for name, c := range map[string]struct{ setup, wantService, wantSetup time.Duration }{
		"no setup":                {0, 5 * time.Second, 0},
		"some":                    {3 * time.Second, 2 * time.Second, 3 * time.Second},
		"more than the token was": {time.Minute, 0, 5 * time.Second},
		"a clock that went back":  {-time.Second, 5 * time.Second, 0},
	} {
		cfg := config("mqfq-sticky", 1)
		cfg.Sched.CountSetup = true
		s := newScript(t, cfg)
		f := fn("f", gib)
		one := s.submit("create 1, start 1 in 1 on 0 cold", f)
		s.now += 5 * time.Second
		got := s.served(Event{Kind: Ended, Invocation: one, Keep: true, Setup: c.setup})
		check.Equal(check.Must(t), len(got), 1, "%s: served", name)
		check.Equal(t, got[0].Service, c.wantService, "%s: served", name)
		check.Equal(t, got[0].Setup, c.wantSetup, "%s: served", name)
		flow := s.flow(f)
		check.Equal(t, flow.Served, 1, "%s: a policy that counts the setup", name)
		check.Equal(t, flow.VT, 5*time.Second, "%s: a policy that counts the setup", name)
	}
}

// TestUnusedRunIsCharged: a run that never began is no service, and its flow pays for the time
// of the token.
func TestUnusedRunIsCharged(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 1))
	f := fn("f", gib)
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.now += 5 * time.Second
	check.Equal(t, len(s.served(Event{Kind: Ended, Invocation: one, Unused: true})), 0)
	got := s.flow(f)
	check.Equal(t, got.Served, 0, "after an unused run of 5 s")
	check.Equal(t, got.VT, 5*time.Second, "after an unused run of 5 s")
}

// TestFailedContainerTakesNoRun: neither between the end of its run and that
// run's leave, nor in the slot of a run that has its answer already.
func TestFailedContainerTakesNoRun(t *testing.T) {
	for _, answered := range []bool{false, true} {
		s := newScript(t, config("fcfs", 1))
		f := fn("f", gib)
		one := s.submit("create 1, start 1 in 1 on 0 cold", f)
		s.take(Event{Kind: Created, Container: 1})
		s.take(Event{Kind: Initialized, Container: 1})
		if answered {
			s.take(Event{Kind: Answered, Invocation: one})
		}
		s.take(Event{Kind: Ended, Invocation: one})
		s.submit("create 2, start 2 in 2 on 0 busy-cold", f)
		s.expect("remove 1", Event{Kind: Left, Invocation: one})
	}
}

// TestOnlyReportsAreLearnt: after a run without a memory report, the next run reserves its
// function's requested memory.
func TestOnlyReportsAreLearnt(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	f := fn("f", 3*gib)
	one := s.submit("create 1, start 1 in 1 on 0 cold", f)
	s.take(Event{Kind: Ended, Invocation: one})
	s.take(Event{Kind: Left, Invocation: one})
	s.take(Event{Kind: Removed, Container: 1})
	s.submit("create 2, start 2 in 2 on 0 cold", f)
	check.Equal(t, s.l.Device(0).Memory.Reserved, 3*gib, "bytes are reserved")
}

// TestRequeuedInTheirOrder: runs that go back to their queue start again in the order
// of their submission.
func TestRequeuedInTheirOrder(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	g := fn("g", 14*gib)
	one := s.submit("create 1, start 1 in 1 on 0 cold", g)
	s.run("", one, 1, 14*gib)
	f := fn("f", 6*gib)
	s.submit("create 2, evict 1 epoch 1", f)
	s.submit("create 3", f)
	s.expect("remove 3, remove 2, remove 1", Event{Kind: DeviceLost, Device: 0, Why: "for now"})
	for b := range Container(3) {
		s.expect("", Event{Kind: Removed, Container: b + 1})
	}
	s.expect("create 4, create 5, start 2 in 4 on 0 cold, start 3 in 5 on 0 busy-cold", Event{Kind: DeviceBack, Device: 0})
}
