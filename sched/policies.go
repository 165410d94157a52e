package sched

import (
	"fmt"
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

// stickyPlus turns on the choices and waits that are better than the paper's order.
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
	// hooks follow the flows of a policy with a state of its own.
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

// noHooks are those of a policy without.
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
