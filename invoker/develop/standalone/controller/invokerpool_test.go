package controller

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// step is one event in the life of an invoker and what must hold after it.
type step struct {
	after time.Duration // since the step before
	event string        // ping, off, tick; ok, error, timeout of a test; other: ok of another activation
	state State
	test  bool // the invoker is to be tested now
}

func TestHealthOfAnInvoker(t *testing.T) {
	repeat := func(n int, s step) []step {
		var all []step
		for range n {
			all = append(all, s)
		}
		return all
	}
	join := func(parts ...[]step) (all []step) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	up := []step{{0, "ping", Unhealthy, true}, {0, "ok", Healthy, false}}
	cases := []struct {
		name  string
		steps []step
	}{
		{"first ping, then the test succeeds", up},
		{"an error keeps a new one unhealthy", []step{{0, "ping", Unhealthy, true}, {0, "error", Unhealthy, false}}},
		{"a timeout makes a new one unresponsive", []step{{0, "ping", Unhealthy, true}, {0, "timeout", Unresponsive, false}}},
		{"three errors are forgiven", join(up, repeat(3, step{0, "error", Healthy, false}))},
		{"the fourth is not", join(up, repeat(3, step{0, "error", Healthy, false}), []step{{0, "error", Unhealthy, true}})},
		{"four timeouts", join(up, repeat(3, step{0, "timeout", Healthy, false}), []step{{0, "timeout", Unresponsive, true}})},
		{"successes heal, a test at a time", join(up, repeat(3, step{0, "error", Healthy, false}), []step{{0, "error", Unhealthy, true}},
			repeat(6, step{0, "ok", Unhealthy, true}), []step{{0, "ok", Healthy, false}})},
		{"one test at a time, however many activations succeed", join(up, repeat(3, step{0, "error", Healthy, false}), []step{{0, "error", Unhealthy, true}},
			repeat(5, step{0, "other", Unhealthy, false}), []step{{0, "ok", Unhealthy, true}, {0, "other", Healthy, false}})},
		{"ten seconds of silence", join(up, []step{{10 * time.Second, "tick", Healthy, false}, {time.Second, "tick", Offline, false}})},
		{"back after silence", join(up, []step{{11 * time.Second, "tick", Offline, false}, {0, "ping", Unhealthy, true}, {0, "ok", Healthy, false}})},
		{"it disables itself", join(up, []step{{0, "off", Offline, false}})},
		{"acks of an offline one do not count", join(up, []step{{0, "off", Offline, false}, {0, "ok", Offline, false}})},
		{"tested again after a minute", join([]step{{0, "ping", Unhealthy, true}},
			repeat(7, step{8 * time.Second, "ping", Unhealthy, false}), []step{{time.Second, "tick", Unhealthy, false}, {3 * time.Second, "tick", Unhealthy, true}})},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newInvokerPool()
			now := time.Unix(1_700_000_000, 0)
			for i, s := range c.steps {
				now = now.Add(s.after)
				if got := f.play(s.event, now); got != s.test {
					t.Fatalf("step %d, %s: test is %t, want %t", i, s.event, got, s.test)
				}
				if got := f.members[3].state; got != s.state {
					t.Fatalf("step %d, %s: %s, want %s", i, s.event, got, s.state)
				}
			}
		})
	}
}

func (f *invokerPool) play(event string, now time.Time) bool {
	ping := activation.Ping{Instance: activation.Instance{ID: 3, UniqueName: "x"}, Enabled: event == "ping"}
	switch event {
	case "ping", "off":
		return f.ping(ping, now)
	case "other":
		return f.ended(3, succeeded, now)
	case "ok", "error", "timeout":
		f.tested(3)
		return f.ended(3, map[string]outcome{"ok": succeeded, "error": systemError, "timeout": timedOut}[event], now)
	}
	return len(f.tick(now)) > 0
}

func TestPickKeepsToOneInvokerAsLongAsItIsUp(t *testing.T) {
	f := newInvokerPool()
	now := time.Unix(1_700_000_000, 0)
	if _, ok := f.pick("a"); ok {
		t.Fatal("picked from no invoker")
	}
	for id := range 4 {
		f.ping(activation.Ping{Instance: activation.Instance{ID: id}, Enabled: true}, now)
		f.ended(id, succeeded, now)
	}
	first, _ := f.pick("guest/hello")
	for range 10 {
		if again, _ := f.pick("guest/hello"); again != first {
			t.Fatalf("picked %d, then %d", first, again)
		}
	}
	f.ping(activation.Ping{Instance: activation.Instance{ID: first}}, now)
	if other, ok := f.pick("guest/hello"); !ok || other == first {
		t.Errorf("picked %d, which is offline", other)
	}
	used := map[int]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		id, _ := f.pick(key)
		used[id] = true
	}
	if len(used) < 2 {
		t.Error("all actions go to one invoker")
	}
}

func TestFlightsEndWhenFreeAndNotWaitedFor(t *testing.T) {
	f := newInFlight()
	record := &activation.Record{ActivationID: "x"}
	one := f.add("x", 2, true, time.Hour, func() {})
	if len(f.slots) != 1 {
		t.Fatal("not counted")
	}
	if invoker, taken := f.free("x"); !taken || invoker != 2 {
		t.Errorf("freed %d, %t", invoker, taken)
	}
	if _, taken := f.free("x"); taken {
		t.Error("freed twice")
	}
	if len(f.slots) != 0 {
		t.Error("a free slot still counts")
	}
	f.answer("x", record) // the completion may overtake the result
	if got := <-one; got != record {
		t.Errorf("got %v", got)
	}
	f.answer("x", record)
	f.answer("x", record) // the second has no reader and must not block
	f.forget("x")
	if len(f.slots)+len(f.callers) != 0 {
		t.Error("it never leaves")
	}
	f.answer("unknown", record)
	if _, taken := f.free("unknown"); taken {
		t.Error("an unknown activation took a slot")
	}
}

func TestForcedCompletion(t *testing.T) {
	f := newInFlight()
	gone := make(chan struct{})
	f.add("x", 0, false, time.Nanosecond, func() { close(gone) })
	<-gone
	if _, taken := f.free("x"); !taken {
		t.Error("the slot was not there to be freed")
	}
}
