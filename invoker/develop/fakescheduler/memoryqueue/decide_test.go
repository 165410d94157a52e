package memoryqueue

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var plenty = Counts{Limit: 30}

// TestDecisions are the rules of OpenWhisk's scheduler, one by one.
func TestDecisions(t *testing.T) {
	const unknown = -1
	for name, c := range map[string]struct {
		fresh, stale          int
		containers, creations int
		durationMillis        int
		concurrency           int
		started               bool // the first container was created before
		counts                Counts
		want                  int
		state                 State
	}{
		"before any activation":                         {durationMillis: unknown, want: 1},
		"only once":                                     {durationMillis: unknown, started: true, want: 0},
		"without a container":                           {fresh: 5, durationMillis: unknown, started: true, want: 1},
		"unknown, fresh":                                {fresh: 5, containers: 1, durationMillis: unknown, want: 0},
		"unknown, stale":                                {stale: 5, containers: 1, durationMillis: unknown, want: 5},
		"unknown, under way":                            {stale: 5, creations: 3, durationMillis: unknown, want: 2},
		"unknown, concurrent":                           {stale: 5, containers: 1, concurrency: 2, durationMillis: unknown, want: 3},
		"long runs, fresh":                              {fresh: 6, containers: 1, durationMillis: 2000, want: 5},
		"long runs, under way":                          {stale: 5, containers: 1, creations: 5, durationMillis: 2000, want: 0},
		"long runs, made and stale":                     {stale: 5, containers: 6, durationMillis: 2000, want: 5},
		"short runs, few":                               {fresh: 90, containers: 1, durationMillis: 1, want: 0},
		"short runs, many":                              {fresh: 250, containers: 1, durationMillis: 1, want: 2},
		"short runs, stale":                             {stale: 250, containers: 1, durationMillis: 1, want: 3},
		"no time at all":                                {fresh: 50, containers: 1, durationMillis: 0, want: 0},
		"no time at all, stale":                         {stale: 3, containers: 1, durationMillis: 0, want: 3},
		"more than free":                                {fresh: 6, containers: 1, durationMillis: 2000, counts: Counts{Limit: 4, Existing: 1}, want: 3, state: NamespaceThrottled},
		"nothing free":                                  {fresh: 6, containers: 1, durationMillis: 2000, counts: Counts{Limit: 4, Existing: 3, InProgress: 1}, want: 0, state: NamespaceThrottled},
		"nothing free and no container":                 {fresh: 2, durationMillis: 2000, counts: Counts{Limit: 4, Existing: 4}, want: 0, state: Flushing},
		"a namespace without any":                       {fresh: 2, durationMillis: unknown, counts: Counts{Limit: -1}, want: 0, state: Flushing},
		"enough containers for the waiting activations": {fresh: 2, containers: 3, durationMillis: 2000, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(func(s *Settings) { s.Concurrency = max(c.concurrency, 1) })
			f.initialized = c.started || c.containers > 0
			for i := range c.stale {
				f.add(activation.ID(fmt.Sprint("s", i)))
			}
			f.after(150 * time.Millisecond)
			for i := range c.fresh {
				f.add(activation.ID(fmt.Sprint("f", i)))
			}
			for i := range c.containers {
				f.ContainerPut(fmt.Sprint(i))
			}
			for i := range c.creations {
				f.CreationPut(activation.ID(fmt.Sprint(i)))
			}
			if c.durationMillis != unknown {
				f.durations = []time.Duration{time.Duration(c.durationMillis) * time.Millisecond}
			}
			counts := c.counts
			if counts == (Counts{}) {
				counts = Counts{Limit: 30, Existing: c.containers, InProgress: c.creations}
			}
			check.Equal(t, f.Decide(f.now, counts), c.want)
			check.Equal(t, f.State(), c.state)
		})
	}
}

// TestInstancesBoundAnAction below its namespace's limit.
func TestInstancesBoundAnAction(t *testing.T) {
	f := newFixture(func(s *Settings) { s.Instances = 2 })
	f.ContainerPut("a")
	f.durations = []time.Duration{time.Second}
	for i := range 9 {
		f.add(activation.ID(fmt.Sprint(i)))
	}
	check.Equal(t, f.Decide(f.now, plenty), 1)
	check.Equal(t, f.State(), Running)
}

func TestThrottlingEnds(t *testing.T) {
	f := newFixture(nil)
	f.ContainerPut("a")
	full := Counts{Limit: 1, Existing: 1}
	f.add("1")
	f.Decide(f.now, full)
	check.Equal(check.Must(t), f.State(), NamespaceThrottled)
	f.fetch("a")
	f.expect(t, "a gets 1")
	check.Equal(t, f.Decide(f.now, full), 0)
	check.Equal(t, f.State(), NamespaceThrottled)
	check.Equal(t, f.Decide(f.now, plenty), 0)
	check.Equal(t, f.State(), Running)
}

// TestMeanOfTheLastTen: older durations do not count.
func TestMeanOfTheLastTen(t *testing.T) {
	f := newFixture(nil)
	for i := range 20 {
		d := time.Duration(i/10+1) * time.Second
		f.call("a", func(c *Call) { c.LastDuration = &d })
	}
	check.Equal(t, f.mean(), 2*time.Second)
}

// TestWhiskErrorsFlush: waiting activations keep waiting, and containers are ordered
// one by one.
func TestWhiskErrorsFlush(t *testing.T) {
	f := newFixture(nil)
	f.add("1")
	f.CreationPut("c")
	f.CreationFailed("c", activation.ResourceNotEnough, "full")
	check.Equal(check.Must(t), f.State(), Flushing)
	check.Equal(check.Must(t), f.Waiting(), 1)
	f.add("2", "3")
	check.Equal(t, f.Decide(f.now, plenty), 1)
	f.CreationPut("d")
	check.Equal(t, f.Decide(f.now, plenty), 0)
	f.expect(t)
	f.CreationSucceeded("d")
	check.Equal(t, f.State(), Running)
	check.Equal(t, f.Creations(), 0)
}

// TestDevelopersErrorsFailAll: the waiting and the following activations fail.
func TestDevelopersErrorsFailAll(t *testing.T) {
	f := newFixture(nil)
	f.add("1", "2")
	f.CreationFailed("c", activation.ActionUnreadable, "gone")
	f.add("3")
	f.expect(t, "1 fails with 2", "2 fails with 2", "3 fails with 2")
	check.Equal(t, f.State(), Flushing)
	f.CreationFailed("d", activation.InvalidActionLimit, "too large")
	f.CreationFailed("e", activation.InvalidActionLimit, "too large")
	check.Equal(t, f.State(), Removed, "after a second refusal for limits it")
}

// TestFailuresBesideAContainer change nothing.
func TestFailuresBesideAContainer(t *testing.T) {
	f := newFixture(nil)
	f.ContainerPut("a")
	f.add("1")
	f.CreationFailed("c", activation.ActionUnreadable, "gone")
	f.expect(t)
	check.Equal(t, f.State(), Running)
}

// TestFlushedQueueGoes when nothing came for long.
func TestFlushedQueueGoes(t *testing.T) {
	f := newFixture(nil)
	f.CreationFailed("c", activation.CreationTimeout, "late")
	f.add("1")
	for range 7 {
		f.after(10 * time.Second)
	}
	f.expect(t, "1 fails with 3")
	f.after(60 * time.Second)
	check.Equal(t, f.State(), Removed)
}

// TestOutdatedQueueServes: a removed queue serves its activations, and orders
// containers only for stale ones.
func TestOutdatedQueueServes(t *testing.T) {
	f := newFixture(nil)
	f.ContainerPut("a")
	f.add("1", "2")
	f.Outdate()
	check.Equal(t, f.Decide(f.now, plenty), 0)
	f.after(200 * time.Millisecond)
	check.Equal(t, f.Decide(f.now, plenty), 2)
	f.fetch("a")
	f.expect(t, "a gets 1")
	check.Equal(t, len(f.Take()), 1)
	check.Equal(t, f.Waiting(), 0)
}
