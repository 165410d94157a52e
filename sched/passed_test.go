package sched

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// placements is a View of one device. Tests change the placements.
type placements map[FlowID]*Placement

func (p placements) Work(id FlowID) Work {
	return testWork{devices: 1, at: func(int) Placement { return *p[id] }, limited: id.Namespace == "limited"}
}

// add makes a flow known, which fits and starts at once.
func (p placements) add(namespace, function string, need int64) (FlowID, *Placement) {
	id := FlowID{namespace, function}
	p[id] = &Placement{Fits: true, Need: need, Room: 10}
	return id, p[id]
}

// lack has a flow lack something.
func (p *Placement) lack(l Lack) { p.Lacks, p.Fits = l, l == 0 }

// stage is a scheduler of one device with two tokens, T = 10 s and no sharing by namespaces.
type stage struct {
	*Scheduler
	placements
	now time.Duration
	id  uint64
}

func newStage(t *testing.T) *stage {
	p := placements{}
	s := newScheduler(t, "mqfq-sticky", p, func(c *Config) { c.Namespaces = false })
	s.AddDevice(0, 0, 2)
	return &stage{Scheduler: s, placements: p}
}

func (s *stage) enqueue(flow FlowID, n int) {
	for range n {
		s.id++
		s.Enqueue(s.now, Invocation{ID: s.id, Flow: flow})
	}
}

// run has the next invocation run for a while, which must be of a flow.
func (s *stage) run(t *testing.T, flow FlowID, d time.Duration) {
	t.Helper()
	c, ok := s.Next(s.now)
	check.Equal(check.Must(t), c.Flow, flow)
	check.That(t, ok, "no flow may start")
	s.now += d
	s.Done(s.now, c.Invocation, Usage{Service: d})
}

// TestEqualNeedsMoveAlike: of two flows that need the same memory, none moves along while the
// other does not. Otherwise the flow that moved would wait for the other to catch up.
func TestEqualNeedsMoveAlike(t *testing.T) {
	for _, c := range []struct {
		a, b  Lack
		moves bool
	}{
		{LacksLimit, LacksLimit, true},
		{LacksLimit, LacksLimit | LacksHost, false}, // the other waits for host memory
	} {
		s := newStage(t)
		a, atA := s.add("limited", "a", 6)
		b, atB := s.add("limited", "b", 6)
		small, _ := s.add("other", "small", 1)
		atA.lack(c.a)
		atB.lack(c.b)
		s.enqueue(a, 1)
		s.enqueue(b, 1)
		s.enqueue(small, 20)
		for range 20 {
			s.run(t, small, 5*time.Second)
		}
		ofA, _ := s.Flow(a)
		ofB, _ := s.Flow(b)
		check.Equal(t, ofA.VT, ofB.VT, "virtual times of flows that lack %b and %b", c.a, c.b)
		check.Equal(t, ofA.PassedOver > 0, c.moves, "a flow that lacks %b moved along, beside one that lacks %b", c.a, c.b)
	}
}

// TestLimitMakesAKind: flows that lack their namespace's limit move along beside flows of the
// same needs without a limit, and such a flow that comes back is lifted to those alone.
func TestLimitMakesAKind(t *testing.T) {
	s := newStage(t)
	held, atHeld := s.add("limited", "held", 3)
	a, _ := s.add("other", "a", 3)
	b, _ := s.add("other", "b", 3)
	atHeld.lack(LacksLimit)
	s.enqueue(held, 1)
	s.enqueue(a, 21)
	for range 20 {
		s.run(t, a, 5*time.Second)
	}
	s.enqueue(b, 1)
	ofHeld, _ := s.Flow(held)
	ofA, _ := s.Flow(a)
	ofB, _ := s.Flow(b)
	check.Greater(t, ofHeld.PassedOver, 0, "time that the flow was passed over")
	check.Less(t, ofHeld.VT, ofA.VT, "virtual time of the flow that its limit holds back")
	check.Equal(t, ofB.VT, ofA.VT, "virtual time of the flow that came last")
}

// TestNoSharingBeforeOthersBeyond: a flow beyond the window does not share its container while
// a flow that it leads by more than T lacks things which the container would give back.
func TestNoSharingBeforeOthersBeyond(t *testing.T) {
	for _, c := range []struct {
		namespace string
		lacks     Lack
		shares    bool
	}{
		{"ns", LacksContainer, false},
		{"ns", LacksHost, false},
		{"ns", LacksContainer | LacksHost | LacksLimit, false},
		{"another", LacksLimit, true},
		{"ns", LacksMemory | LacksContainer, true},
		{"ns", LacksDevice, true},
	} {
		s := newStage(t)
		least, atLeast := s.add("limited", "least", 1)
		waits, atWaits := s.add(c.namespace, "waits", 1)
		shares, atShares := s.add("ns", "shares", 2)
		atLeast.lack(LacksLimit | LacksHost)
		s.enqueue(least, 1)
		s.enqueue(waits, 2)
		s.run(t, waits, 15*time.Second)
		s.enqueue(shares, 2)
		s.run(t, shares, 40*time.Second)
		atWaits.lack(c.lacks)
		atShares.Shares = true
		got, ok := s.Next(s.now)
		check.Equal(t, ok, c.shares, "%s started, while %s/waits lacks %b", got.Flow, c.namespace, c.lacks)
		atShares.Shares = false
		if !ok {
			s.run(t, shares, time.Second)
		}
	}
}
