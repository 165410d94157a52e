package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// contest drives one policy on one device. Each grant is written as the name of the flow.
type contest struct {
	t *testing.T
	scheduler.Policy
	now    time.Duration
	id     uint64
	setups map[string]time.Duration
}

func newContest(t *testing.T, policy string, tokens int, adjust func(*sched.Config)) *contest {
	t.Helper()
	p, err := policyNamed(policy)
	check.NoError(check.Must(t), err)
	cfg := p.Defaults()
	cfg.InitialCharge = time.Second
	if adjust != nil {
		adjust(&cfg)
	}
	c := &contest{t: t, setups: map[string]time.Duration{}}
	c.Policy, err = newPolicy(policy, cfg, c)
	check.NoError(check.Must(t), err)
	c.AddDevice(0, 0, tokens)
	return c
}

// Work has a flow start on the device after its set-up.
func (c *contest) Work(f sched.FlowID) sched.Work { return contestant{c, f.Function} }

type contestant struct {
	c    *contest
	name string
}

func (w contestant) Outlook() sched.Outlook {
	return sched.Outlook{Setup: w.c.setups[w.name], Servable: true}
}

func (w contestant) Placement(int) sched.Placement {
	p := sched.Placement{Setup: w.c.setups[w.name], Fits: true}
	if p.Setup > 0 {
		p.Start = sched.Cold
	}
	return p
}

func flowNamed(name string) sched.FlowID { return sched.FlowID{Namespace: "-", Function: name} }

// enqueue adds n invocations, numbered from 1 on.
func (c *contest) enqueue(name string, n int, cost time.Duration) {
	for range n {
		c.id++
		c.Enqueue(c.now, sched.Invocation{ID: c.id, Flow: flowNamed(name), Cost: cost})
	}
}

// wantNext takes the next grant, which must be the flow's.
func (c *contest) wantNext(name string) sched.Choice {
	c.t.Helper()
	g, ok := c.Next(c.now)
	check.That(check.Must(c.t), ok, "nothing is granted, want %s", name)
	check.Equal(c.t, g.Flow.Function, name)
	check.Equal(c.t, g.Rule, sched.RuleOrder)
	return g
}

func (c *contest) end(g sched.Choice) {
	c.Done(c.now, g.Invocation, sched.Usage{Service: time.Second})
}

// drain grants and ends one run after another, each after 1 s of service, and compares the
// order of their flows.
func (c *contest) drain(want string) {
	c.t.Helper()
	var got []string
	for range strings.Fields(want) {
		g, ok := c.Next(c.now)
		check.That(check.Must(c.t), ok, "nothing is granted after %s", got)
		got = append(got, g.Flow.Function)
		c.end(g)
	}
	check.Equal(c.t, strings.Join(got, " "), want)
}

// TestBatch: batch drains the queue that holds the oldest invocation. Invocations that arrive
// later do not belong to the batch.
func TestBatch(t *testing.T) {
	c := newContest(t, "batch", 1, nil)
	c.enqueue("a", 2, 0)
	c.enqueue("b", 3, 0)
	c.enqueue("a", 1, 0)
	first := c.wantNext("a")
	check.Equal(t, first.Invocation, 1)
	check.Equal(t, first.Charged, time.Second)
	check.Equal(t, first.Placement.Start, sched.GPUWarm)
	c.enqueue("a", 2, 0)
	c.enqueue("c", 1, 0)
	c.end(first)
	c.drain("a a b b b a a c")
}

// TestBatchSurvivesUndoAndCancel: an invocation that comes back belongs to its batch again. A
// cancelled invocation does not make room in the batch for a later one.
func TestBatchSurvivesUndoAndCancel(t *testing.T) {
	c := newContest(t, "batch", 1, nil)
	c.enqueue("a", 3, 0)
	c.enqueue("b", 2, 0)
	second := c.wantNext("a")
	c.Undo(c.now, second.Invocation)
	check.Equal(t, c.wantNext("a").Invocation, second.Invocation)
	check.That(t, c.Cancel(c.now, 2), "the second of a is queued")
	c.enqueue("a", 2, 0)
	c.end(second)
	c.drain("a b b a a")
}

// TestPaella: paella takes the shortest expected invocation, but a function whose deficit
// passed the limit goes first: a loses to b until the dispatches that it did not get add up.
func TestPaella(t *testing.T) {
	c := newContest(t, "paella", 1, nil)
	c.enqueue("a", 3, 9*time.Second)
	c.enqueue("b", 16, time.Second)
	c.drain("b b b b b b b b")
	c.drain("a b a b")
	c.drain("a b b b b b b")
}

// TestPaellaPaysBack: a run that is undone costs its flow nothing. All flows keep their shares
// of both dispatches, so that a is over the limit for longer.
func TestPaellaPaysBack(t *testing.T) {
	c := newContest(t, "paella", 1, nil)
	c.enqueue("a", 3, 9*time.Second)
	c.enqueue("b", 16, time.Second)
	c.drain("b b b b b b b b")
	for range 2 {
		g := c.wantNext("a")
		c.Undo(c.now, g.Invocation)
	}
	c.drain("a a a b")
}

// TestStartTimeFairQueueing: sfq has no window, whatever is configured, and one token on each
// device, whatever is offered.
func TestStartTimeFairQueueing(t *testing.T) {
	c := newContest(t, "sfq", 4, func(c *sched.Config) { c.Overrun = 10 * time.Second })
	c.enqueue("a", 3, 0)
	c.enqueue("b", 3, 0)
	first := c.wantNext("a")
	check.Equal(t, first.Invocation, 1)
	check.Equal(t, first.Charged, time.Second)
	_, ok := c.Next(c.now)
	check.That(t, !ok, "a second run starts")
	c.SetTokens(c.now, 0, 3)
	_, ok = c.Next(c.now)
	check.That(t, !ok, "a second run starts after the device has got more tokens")
	a, _ := c.Flow(flowNamed("a"))
	check.Equal(t, a.State, sched.Throttled)
	check.Equal(t, a.VT, time.Second)
	check.Equal(t, a.Lead, time.Second)
	b, _ := c.Flow(flowNamed("b"))
	check.Equal(t, b.State, sched.Active)
	check.Equal(t, b.VT, 0)
	check.Equal(t, b.Lead, 0)
	c.end(first)
	c.drain("b a b a b")
}

// TestShortestFirst: sjf takes the shortest expected service, and the older head among equals.
func TestShortestFirst(t *testing.T) {
	c := newContest(t, "sjf", 1, nil)
	c.enqueue("a", 2, 3*time.Second)
	c.enqueue("b", 2, time.Second)
	c.enqueue("c", 1, 0)
	c.drain("b b c a a")
}

// TestEarliestDeadline: eevdf goes by arrival plus expected time, cold start included if
// no warm container is idle.
func TestEarliestDeadline(t *testing.T) {
	c := newContest(t, "eevdf", 1, nil)
	c.setups["a"] = 10 * time.Second
	c.enqueue("a", 1, 0)
	c.now = 5 * time.Second
	c.enqueue("b", 1, time.Second)
	c.now = 9 * time.Second
	c.enqueue("c", 1, 3*time.Second)
	b := c.wantNext("b")
	check.Equal(t, b.Placement.Start, sched.GPUWarm)
	check.Equal(t, b.Charged, time.Second)
	c.end(b)
	a := c.wantNext("a")
	check.Equal(t, a.Placement.Start, sched.Cold)
	check.Equal(t, a.Charged, time.Second)
	c.end(a)
	c.enqueue("a", 1, 2*time.Second)
	delete(c.setups, "a") // a's container is there now
	a = c.wantNext("a")
	check.Equal(t, a.Placement.Start, sched.GPUWarm)
	check.Equal(t, a.Charged, 2*time.Second)
}

// TestPoliciesAreDescribed: each policy can be made with its defaults, has a text, and refuses
// the order of sticky policies if it has its own.
func TestPoliciesAreDescribed(t *testing.T) {
	for _, p := range Policies() {
		check.That(t, p.Text != "", "%s is described", p.Name)
		cfg := p.Defaults()
		_, err := newPolicy(p.Name, cfg, nil)
		check.NoError(t, err, "%s", p.Name)
		cfg.Shortest = true
		if _, err = newPolicy(p.Name, cfg, nil); p.Order != nil {
			check.ErrorContains(t, err, "Shortest", "%s", p.Name)
		}
	}
	_, err := newPolicy("lottery", sched.Config{}, nil)
	check.ErrorContains(t, err, `"lottery"`)
	check.ErrorContains(t, err, "mqfq-sticky, sticky-plus")
}
