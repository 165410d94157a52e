package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// step is an event in the life of an invoker, with the expected state after it.
type step struct {
	after time.Duration // since the step before
	event string        // ping, off; ok of a test; none
	state State
	test  bool // the invoker is to be tested now
}

func TestHealthOfAnInvoker(t *testing.T) {
	repeat := func(n int, s step) []step { return slices.Repeat([]step{s}, n) }
	join := slices.Concat[[]step]
	up := []step{{0, "ping", Unhealthy, true}, {0, "ok", Healthy, false}}
	cases := []struct {
		name  string
		steps []step
	}{
		{"first ping, then the test succeeds", up},
		{"without a test it stays unhealthy", []step{{0, "ping", Unhealthy, true}, {time.Second, "ping", Unhealthy, false}}},
		{"it stays up", join(up, repeat(70, step{time.Second, "ping", Healthy, false}))},
		{"ten seconds of silence", join(up, []step{{10 * time.Second, "none", Healthy, false}, {time.Second, "none", Offline, false}})},
		{"back after silence", join(up, []step{{11 * time.Second, "none", Offline, false}, {0, "ping", Unhealthy, true}, {0, "ok", Healthy, false}})},
		{"it disables itself", join(up, []step{{0, "off", Offline, false}})},
		{"acks of an offline one do not count", join(up, []step{{0, "off", Offline, false}, {0, "ok", Offline, false}})},
		{"tested again after a minute", join([]step{{0, "ping", Unhealthy, true}},
			repeat(7, step{8 * time.Second, "ping", Unhealthy, false}), []step{{4 * time.Second, "ping", Unhealthy, true}, {time.Second, "ping", Unhealthy, false}})},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newInvokerPool()
			now := time.Unix(1_700_000_000, 0)
			for i, s := range c.steps {
				now = now.Add(s.after)
				check.Equal(check.Must(t), f.play(s.event, now), s.test, "step %d, %s", i, s.event)
				check.Equal(check.Must(t), f.members[3].stateAt(now), s.state, "step %d, %s", i, s.event)
			}
		})
	}
}

func (p *invokerPool) play(event string, now time.Time) (test bool) {
	switch event {
	case "ping", "off":
		return p.ping(activation.Ping{Instance: activation.Instance{ID: 3, UniqueName: "x"}, Enabled: event == "ping"}, now)
	case "ok":
		p.passed(3, now)
	}
	return false
}

func TestPickKeepsToOneInvokerAsLongAsItIsUp(t *testing.T) {
	f := newInvokerPool()
	now := time.Unix(1_700_000_000, 0)
	_, ok := f.pick("a", now)
	check.That(check.Must(t), !ok, "picked from no invoker")
	for id := range 4 {
		f.ping(activation.Ping{Instance: activation.Instance{ID: id}, Enabled: true}, now)
		f.passed(id, now)
	}
	first, _ := f.pick("guest/hello", now)
	for range 10 {
		again, _ := f.pick("guest/hello", now)
		check.Equal(check.Must(t), again, first)
	}
	f.ping(activation.Ping{Instance: activation.Instance{ID: first}}, now)
	other, ok := f.pick("guest/hello", now)
	check.That(t, ok)
	check.That(t, other != first, "picked %d, which is offline", other)
	used := map[int]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		id, _ := f.pick(key, now)
		used[id] = true
	}
	check.AtLeast(t, len(used), 2)
}
