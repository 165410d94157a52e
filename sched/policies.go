package sched

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Info describes a policy for lists and reports.
type Info struct {
	Name string
	Text string
	// NoPool means that the policy stands for a server without a warm pool
	// and memory management: every start is to be cold.
	NoPool bool
	// Demand means that the policy is to run with demand-aware retention of
	// containers instead of least recently used.
	Demand bool

	adjust func(*Config)
}

// Policies lists the policies in the order of the paper's comparison.
func Policies() []Info {
	return []Info{
		{Name: "mqfq-sticky", Text: "fair queueing with an overrun window, longest queue first inside it"},
		{Name: "sticky-plus", Text: "fair queueing with a wide window, shortest first inside it, which avoids cold starts", Demand: true, adjust: stickyPlus},
		{Name: "mqfq", Text: "fair queueing with an overrun window, least virtual time first"},
		{Name: "sfq", Text: "start-time fair queueing: no overrun, one token a device", adjust: func(c *Config) { c.Overrun = 0 }},
		{Name: "fcfs", Text: "arrival order"},
		{Name: "batch", Text: "drain the queue that holds the oldest invocation"},
		{Name: "paella", Text: "shortest expected first, with a limit on each function's deficit"},
		{Name: "sjf", Text: "shortest expected first"},
		{Name: "eevdf", Text: "earliest deadline: arrival plus expected time, cold start included"},
		{Name: "naive", Text: "arrival order without warm pool or memory management", NoPool: true},
	}
}

func find(name string) (Info, bool) {
	for _, p := range Policies() {
		if p.Name == name {
			return p, true
		}
	}
	return Info{}, false
}

func unknown(name string) error {
	var names []string
	for _, p := range Policies() {
		names = append(names, p.Name)
	}
	return fmt.Errorf("sched policy %q: must be one of %s", name, strings.Join(names, ", "))
}

// stickyPlus turns on what chooses or waits better than the paper's order.
func stickyPlus(c *Config) {
	c.Wait, c.Locality, c.Shortest = true, true, true
	c.Gap = 2 * time.Minute
}

// rules is what makes a policy: where a flow stands in the order of those that may
// run. Everything else is common to all policies.
type rules struct {
	window  bool // the overrun T throttles
	setup   bool // key uses flow.setup
	nested  bool // namespaces are ordered by their virtual time, and key orders the flows of one
	overdue bool // heads that are overdue go before the order
	// key ranks an eligible flow, by class and then by key. Less is sooner; equal
	// keys go by the age of the head.
	key func(s *Scheduler, f *flow) (class, key int64)
	// hooks follow the flows of a policy that remembers something, nil for none.
	hooks hooks
}

// hooks follow what becomes of flows.
type hooks interface {
	// queued and drained follow a flow into and out of backlog.
	queued(s *Scheduler, f *flow)
	drained(s *Scheduler, f *flow)
	// granted follows a grant, before the order is brought up to date, and names
	// the rule that made it.
	granted(s *Scheduler, f *flow) Rule
	// undone follows an invocation that comes back, or is given up, ungranted.
	undone(s *Scheduler, f *flow)
	// dropped follows a flow that lost a queued invocation.
	dropped(s *Scheduler, f *flow)
}

// noHooks follow nothing.
type noHooks struct{}

func (noHooks) queued(*Scheduler, *flow)       {}
func (noHooks) drained(*Scheduler, *flow)      {}
func (noHooks) granted(*Scheduler, *flow) Rule { return RuleOrder }
func (noHooks) undone(*Scheduler, *flow)       {}
func (noHooks) dropped(*Scheduler, *flow)      {}

func rulesOf(name string, cfg Config) (rules, error) {
	r := rules{hooks: noHooks{}, key: byAge}
	sticky := name == "mqfq-sticky" || name == "sticky-plus"
	if cfg.Shortest && !sticky {
		return rules{}, fmt.Errorf("sched config Shortest=true: policy %s has an order of its own", name)
	}
	switch name {
	case "mqfq-sticky", "sticky-plus":
		r.window, r.setup, r.overdue, r.key = true, true, true, byLongest
		if cfg.Shortest {
			r.key = byShortest
		}
	case "mqfq", "sfq":
		r.window, r.nested, r.key = true, true, byVirtualTime
	case "fcfs", "naive":
	case "batch":
		r.key, r.hooks = byBatch, batch{}
	case "paella":
		p := newPaella(cfg.DeficitLimit)
		r.key, r.hooks = p.key, p
	case "sjf":
		r.key = byService
	case "eevdf":
		r.setup, r.key = true, byDeadline
	default:
		return rules{}, unknown(name)
	}
	return r, nil
}

// byAge is arrival order: the heads of all flows hold the oldest invocation.
func byAge(*Scheduler, *flow) (int64, int64) { return 0, 0 }

// byVirtualTime takes the eligible flow of least virtual time. The original
// multi-queue fair queueing leaves the choice inside the window open. With T = 0
// and one token it is start-time fair queueing. Virtual times of two namespaces'
// flows have nothing in common, so it is nested.
func byVirtualTime(_ *Scheduler, f *flow) (int64, int64) { return 0, f.vt }

// byService takes the shortest expected service.
func byService(s *Scheduler, f *flow) (int64, int64) { return 0, s.expected(f) }

// byDeadline takes the earliest deadline: arrival plus expected time, the cold
// start included when no container of the flow is idle.
func byDeadline(s *Scheduler, f *flow) (int64, int64) {
	return 0, f.head().arrival + f.setup + s.expected(f)
}

// byLongest is MQFQ-Sticky's order inside the window (paper, Algorithm 1): fewest
// in flight, then longest queue, then older head. With a single token nothing is
// in flight whenever a choice is made.
func byLongest(s *Scheduler, f *flow) (int64, int64) {
	return s.flightClass(f, math.MaxInt), -int64(f.queue.Len())
}

// byShortest takes, inside the window and among the flows with fewest in flight,
// the one whose next invocation takes least: expected service plus the least setup
// on any device. What is in flight comes first for the paper's reason: a second run
// of one function costs a second container. Flows that take about the same go by
// the age of their heads.
//
// Shortest first alone starves what is long. Here the window ends that: a flow that
// led by T gives way to those served least, and overdue heads go before all.
func byShortest(s *Scheduler, f *flow) (int64, int64) {
	return s.flightClass(f, maxFlightClass), sizeRank(s.takes(f))
}

// maxFlightClass: more than 3 runs of one function at once are alike.
const maxFlightClass = 3

func (s *Scheduler) flightClass(f *flow, most int) int64 {
	if s.tokens == 1 {
		return 0
	}
	return int64(min(len(f.flights), most))
}

const (
	sizeShift   = 20 // below 2^20 ns, about a millisecond, all are alike
	sizeOctaves = 28 // up to 2^48 ns, beyond two of the longest durations accepted
)

// sizeRank rounds down to 2^k or 1.5 * 2^k and numbers what comes out: expected
// times are not so exact that a little more should put the older head behind.
func sizeRank(size int64) int64 {
	if size < 1<<sizeShift {
		return 0
	}
	k := bits.Len64(uint64(size)) - 1
	half := size >> (k - 1) & 1
	return min(int64(2*(k-sizeShift))+half+1, 2*sizeOctaves)
}

// batch drains the whole queue of the oldest invocation before another: what was
// queued when the batch began belongs to it, later arrivals do not, so that one busy
// function cannot keep the device for ever.
type batch struct{ noHooks }

func byBatch(_ *Scheduler, f *flow) (int64, int64) {
	if f.batch > 0 {
		return 0, 0
	}
	return 1, 0
}

func (batch) granted(_ *Scheduler, f *flow) Rule {
	if f.batch > 0 {
		f.batch--
		return RuleBatch
	}
	f.batch = f.queue.Len()
	return RuleOrder
}

func (batch) dropped(_ *Scheduler, f *flow) { f.batch = min(f.batch, f.queue.Len()) }

// undone counts the invocation into the batch again, if the batch still runs.
func (batch) undone(_ *Scheduler, f *flow) {
	if f.batch > 0 {
		f.batch++
	}
}
