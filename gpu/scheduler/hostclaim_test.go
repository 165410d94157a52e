package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// hostContest returns eight functions whose containers fill the host's memory, and a later
// function that needs all of it.
func hostContest(t *testing.T, c Config, width int, pause time.Duration) (small []*caller, large *caller) {
	w := newFixture(t, c)
	w.removing = time.Second
	w.limitHost(1024)
	for i := range 8 {
		x := &caller{Function: function(fmt.Sprint("n", i%2), fmt.Sprint("small", i), gib/4), keep: 3, init: time.Second, run: time.Second, pause: pause}
		x.Width = width
		small = append(small, x)
		w.call(x)
	}
	w.until(5 * time.Minute)
	for _, x := range small {
		x.service = 0
	}
	large = &caller{Function: function("n0", "large", gib/4), keep: 3, init: time.Second, run: time.Second}
	large.HostMB = 1024
	w.call(large)
	w.until(2 * time.Hour)
	return small, large
}

// TestHostMemoryContest: a function that needs the host memory of many others has its
// share of device time, although theirs is used again and again.
func TestHostMemoryContest(t *testing.T) {
	for _, policy := range []string{"sticky-plus", "mqfq-sticky"} {
		for _, x := range []struct {
			devices, tokens, width int
			pause                  time.Duration
		}{
			{1, 1, 1, 0},                // no token is ever free
			{1, 2, 4, 0},                // a container has always a run
			{2, 2, 1, 0},                // devices drain at different times
			{1, 4, 1, 30 * time.Second}, // functions that use little return again and again
		} {
			c := config(policy, x.devices)
			c.Tokens.Max = x.tokens
			small, large := hostContest(t, c, x.width, x.pause)
			most := time.Duration(0)
			for i := 0; i < len(small); i += 2 { // those of its namespace
				most = max(most, small[i].service)
			}
			// A tenth is for time beyond the window, while it is large's turn and containers go.
			bound := sched.GapBound(c.Sched.MaxOverrun(), x.devices*x.tokens, 2*time.Second, 1, 2*time.Second, 1)
			check.AtLeast(t, large.service+bound, most*9/10, "%s, %+v: large had %s and waited %s, small had %s", policy, x, large.service, large.wait, most)
		}
	}
}

// TestHostMemoryIsKept: memory freed for one flow goes to no other flow, and a claim that
// cannot be met frees nothing.
func TestHostMemoryIsKept(t *testing.T) {
	c := config("mqfq-sticky", 1)
	c.Tokens.Max = 3
	s := newScript(t, c)
	large := fn("large", gib)
	large.HostMB = 512
	s.expect("", Event{Kind: HostReported, Host: HostMemory{Free: 768}})
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", gib))
	two := s.submit("create 2, start 2 in 2 on 0 cold", fn("g", gib))
	s.submit("", large)            // 256 are free, and the others run
	s.run("remove 1", one, 1, gib) // this container's memory suffices for them
	s.submit("", fn("h", gib))     // it would fit into the free memory
	s.l.Take(Event{At: s.now, Kind: Removed, Container: 1})
	s.expect("create 3, start 3 in 3 on 0 cold", Event{Kind: HostReported, Host: HostMemory{Free: 512}})
	s.run("remove 2", two, 2, gib) // for h
	s.l.Take(Event{At: s.now, Kind: Removed, Container: 2})
	s.expect("create 4, start 4 in 4 on 0 cold", Event{Kind: HostReported, Host: HostMemory{Free: 256}})
}
