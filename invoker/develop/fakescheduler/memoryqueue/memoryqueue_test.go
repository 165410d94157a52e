package memoryqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var hello = activation.ActionRef{Path: "guest", Name: "hello", Version: "0.0.3"}

// fixture is a queue with its own clock and a list of events.
type fixture struct {
	*Queue
	now    time.Time
	events []string
}

func newFixture(change func(*Settings)) *fixture {
	f := &fixture{now: time.Unix(1000, 0)}
	s := Defaults()
	if change != nil {
		change(&s)
	}
	f.Queue = New(f.now, s, hello, func(a Activation, status int, reason string) {
		f.events = append(f.events, fmt.Sprintf("%s fails with %d", a.ID, status))
	})
	return f
}

func (f *fixture) after(d time.Duration) {
	f.now = f.now.Add(d)
	f.Tick(f.now)
}

func (f *fixture) add(ids ...activation.ID) {
	for _, id := range ids {
		f.Add(f.now, Activation{ID: id, JSON: []byte(id)})
	}
}

func (f *fixture) call(container string, change func(*Call)) {
	c := Call{Action: hello, Container: container, Alive: true, Answer: func(a activation.FetchAnswer) {
		text := a.Kind.String()
		if a.Kind == activation.Fetched {
			text = string(a.JSON())
		}
		f.events = append(f.events, container+" gets "+text)
	}}
	if change != nil {
		change(&c)
	}
	f.Fetch(f.now, c)
}

func (f *fixture) fetch(containers ...string) {
	for _, c := range containers {
		f.call(c, nil)
	}
}

// expect compares the events since its last call.
func (f *fixture) expect(t *testing.T, want ...string) {
	t.Helper()
	check.EqualSlices(t, f.events, want, "got %s, want %s", strings.Join(f.events, ", "), strings.Join(want, ", "))
	f.events = nil
}

func warm(c *Call) { c.Warmed = true }

// TestGreatestCallIsServedFirst: warmed ones, and among equals the greatest id.
func TestGreatestCallIsServedFirst(t *testing.T) {
	f := newFixture(nil)
	f.fetch("b", "z")
	f.call("a", warm)
	f.call("c", warm)
	f.add("1", "2", "3", "4")
	f.expect(t, "c gets 1", "a gets 2", "z gets 3", "b gets 4")
}

// TestOldestActivationGoesFirst: every call gets the oldest activation.
func TestOldestActivationGoesFirst(t *testing.T) {
	f := newFixture(nil)
	f.add("1", "2", "3")
	f.fetch("a")
	f.call("z", warm)
	f.fetch("b")
	f.expect(t, "a gets 1", "z gets 2", "b gets 3")
}

func TestCallsWaitOneSecond(t *testing.T) {
	f := newFixture(nil)
	f.fetch("a")
	f.after(999 * time.Millisecond)
	f.expect(t)
	f.after(time.Millisecond)
	f.expect(t, "a gets no activation")
	f.add("1")
	f.expect(t)
	check.Equal(t, f.Waiting(), 1)
	check.Equal(t, f.Containers(), 1)
}

// TestLeaving: a leaving container's calls are all answered. A later call makes the
// container a ghost.
func TestLeaving(t *testing.T) {
	f := newFixture(nil)
	f.fetch("a", "a", "b")
	f.call("a", func(c *Call) { c.Alive = false })
	f.expect(t, "a gets no activation", "a gets no activation", "a gets no activation")
	check.Equal(t, f.Containers(), 1)
	check.Equal(t, f.Calls(), 1)
	f.ContainerPut("a")
	f.ContainerDeleted("a")
	f.fetch("a")
	check.Equal(t, f.Containers(), 2)
}

func TestMismatch(t *testing.T) {
	f := newFixture(nil)
	f.add("1")
	f.call("a", func(c *Call) { c.Action.Version = "0.0.2" })
	f.call("b", func(c *Call) { c.Action.Binding = "guest/p" })
	f.expect(t, "a gets action mismatch", "b gets action mismatch")
	check.Equal(t, f.Waiting(), 1)
	check.Equal(t, f.Containers(), 0)
}

// TestOldActivationsFail, when they are looked at.
func TestOldActivationsFail(t *testing.T) {
	f := newFixture(nil)
	f.after(5 * time.Second)
	f.add("1")
	f.after(5 * time.Second)
	f.add("2")
	f.after(50 * time.Second)
	f.expect(t)
	f.after(10 * time.Second)
	f.expect(t, "1 fails with 3", "2 fails with 3")
}

func TestRescheduledIsNewAgain(t *testing.T) {
	f := newFixture(nil)
	f.add("1")
	f.fetch("a")
	f.add("2")
	f.after(55 * time.Second)
	f.Add(f.now, Activation{ID: "1", JSON: []byte("1")})
	f.after(10 * time.Second)
	f.expect(t, "a gets 1", "2 fails with 3")
	f.fetch("a")
	f.expect(t, "a gets 1")
}

func TestFullQueueRefuses(t *testing.T) {
	f := newFixture(func(s *Settings) { s.MaxSize = 10 })
	for i := range 10 {
		f.add(activation.ID(fmt.Sprint(i)))
	}
	f.add("x")
	f.expect(t, "x fails with 2")
	f.fetch("a")
	f.add("y")
	f.expect(t, "a gets 0", "y fails with 2")
	f.fetch("a")
	f.add("z")
	f.expect(t, "a gets 1")
	check.Equal(t, f.State(), Running)
}

// TestUnusedQueueGoes by way of being idle, where calls wait for nothing.
func TestUnusedQueueGoes(t *testing.T) {
	f := newFixture(nil)
	f.after(20 * time.Second)
	check.Equal(check.Must(t), f.State(), Idle)
	f.fetch("a")
	f.expect(t, "a gets no activation")
	f.add("1")
	check.Equal(t, f.State(), Running, "with an activation it")
	f.fetch("a")
	f.call("a", func(c *Call) { c.Alive = false })
	f.expect(t, "a gets 1", "a gets no activation")
	f.after(20 * time.Second)
	f.after(20 * time.Second)
	check.Equal(t, f.State(), Removed)
	f.fetch("a")
	f.expect(t, "a gets no queue")
}

// TestUsedQueueStays for as long as it has a container.
func TestUsedQueueStays(t *testing.T) {
	f := newFixture(nil)
	f.ContainerPut("a")
	for range 10 {
		f.after(20 * time.Second)
	}
	check.Equal(t, f.State(), Running)
}
