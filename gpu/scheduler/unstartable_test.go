package scheduler

import (
	"fmt"
	"testing"
	"time"
)

// fail submits an invocation that gets a new container and fails in it.
func (s *script) fail(f *Function, unstartable bool) {
	s.t.Helper()
	c := s.l.created + 1
	id := s.submit(fmt.Sprintf("create %d, start %d in %d on 0 cold", c, s.n+1, c), f)
	s.take(Event{Kind: Left, Invocation: id, Unstartable: unstartable})
	s.take(Event{Kind: Removed, Container: c})
}

// TestUnstartableIsRefusedDuringThePause: a function that cannot be started pauses after three
// failures. Queued invocations, and those that arrive during the pause, are refused at once.
// The first invocation after the pause is tried. A new revision is tried at once.
func TestUnstartableIsRefusedDuringThePause(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	f := fn("f", gib)
	s.fail(f, true)
	s.fail(f, true)
	first := s.submit("create 3, start 3 in 3 on 0 cold", f)
	second := s.submit("create 4, start 4 in 4 on 0 busy-cold", f)
	s.submit("", f)
	s.submit("", f)
	s.expect("refuse 5 unstartable, refuse 6 unstartable", Event{Kind: Ended, Invocation: first, Unstartable: true})
	s.take(Event{Kind: Left, Invocation: first})
	s.submit("refuse 7 unstartable", f)
	s.now += 9 * time.Second
	s.submit("refuse 8 unstartable", f)
	s.take(Event{Kind: Left, Invocation: second, Unstartable: true}) // its pause is 20 s
	s.take(Event{Kind: Removed, Container: 3})
	s.take(Event{Kind: Removed, Container: 4})
	s.now += 19 * time.Second
	s.expect("", Event{Kind: Tick})
	s.submit("refuse 9 unstartable", f)
	s.now += time.Second
	s.take(Event{Kind: Tick})
	last := s.submit("create 5, start 10 in 5 on 0 cold", f)
	s.submit("create 6, start 11 in 6 on 0 busy-cold", f)
	s.expect("", Event{Kind: Ended, Invocation: last, Unstartable: true})
	s.submit("refuse 12 unstartable", f)

	updated := fn("f", gib)
	updated.Key = "f2"
	s.submit("create 7, start 13 in 7 on 0 cold", updated)
}

// TestFailedRunsWaitForThePause: a run that began and failed may have had a bad input. The
// next invocation waits until the pause ends, and is not refused.
func TestFailedRunsWaitForThePause(t *testing.T) {
	s := newScript(t, config("fcfs", 1))
	f := fn("f", gib)
	s.fail(f, true)
	s.fail(f, true)
	s.fail(f, false)
	s.submit("", f)
	s.now += 10 * time.Second
	s.expect("create 4, start 4 in 4 on 0 cold", Event{Kind: Tick})
}

// TestForgottenWhenThePolicyForgets: the owner keeps the reason why a function cannot be
// started for as long as the scheduler may refuse invocations for that reason.
func TestForgottenWhenThePolicyForgets(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 1))
	f := fn("f", gib)
	for range 3 {
		s.fail(f, true)
	}
	for range 200 {
		s.now += time.Minute
		s.l.Take(Event{At: s.now, Kind: Tick})
		for _, o := range s.l.Ready() {
			if o.Do == Forget {
				if _, known := s.l.Flow(f.Flow); known {
					t.Error("forgotten while the policy knows the flow")
				}
				return
			}
		}
	}
	t.Error("not forgotten within 200 minutes")
}
