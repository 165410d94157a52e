package sched

import (
	"fmt"
	"strings"
	"time"
)

// PolicyInfo describes a policy for lists and reports.
type PolicyInfo struct {
	Name string
	Text string
	// NoPool means that the policy stands for a server without a warm pool
	// and memory management: every start is to be cold.
	NoPool bool
	// Rival means that the policy is there to be compared with in the simulator, not to be
	// operated: it has no bound on fairness, or is slower than another with the same bound.
	Rival bool
	// Demand means that the policy is to run with demand-aware retention of
	// containers instead of least recently used.
	Demand bool
	// Strict means that T is 0 and that a device has one token, whatever is
	// configured.
	Strict bool

	adjust func(*Config)
	rules  func(Config) rules
}

// Policies lists the policies in the order of the paper's comparison.
func Policies() []PolicyInfo {
	by := func(r rules) func(Config) rules { return func(Config) rules { return r } }
	return []PolicyInfo{
		{Name: "mqfq-sticky", Text: "fair queueing with an overrun window, longest queue first inside it", rules: sticky},
		{Name: "sticky-plus", Text: "fair queueing with a wide window, shortest first inside it, which avoids cold starts", Demand: true, adjust: stickyPlus, rules: sticky},
		{Name: "mqfq", Rival: true, Text: "fair queueing with an overrun window, least virtual time first", rules: by(rules{window: true, key: byVirtualTime})},
		{Name: "sfq", Rival: true, Text: "start-time fair queueing: no overrun, one token a device", Strict: true, adjust: func(c *Config) { c.Overrun = 0 },
			rules: by(rules{window: true, key: byVirtualTime})},
		{Name: "fcfs", Text: "arrival order", rules: by(rules{key: byAge})},
		{Name: "batch", Rival: true, Text: "drain the queue that holds the oldest invocation", rules: by(rules{key: byBatch, hooks: batch{}})},
		{Name: "paella", Rival: true, Text: "shortest expected first, with a limit on each function's deficit", rules: func(Config) rules {
			p := &paella{}
			return rules{key: p.key, hooks: p}
		}},
		{Name: "sjf", Rival: true, Text: "shortest expected first", rules: by(rules{key: byService})},
		{Name: "eevdf", Rival: true, Text: "earliest deadline: arrival plus expected time, cold start included", rules: by(rules{key: byDeadline})},
		{Name: "naive", Rival: true, Text: "arrival order without warm pool or memory management", NoPool: true, rules: by(rules{key: byAge})},
	}
}

// stickyPlus turns on the choices and waits that are better than the paper's order.
func stickyPlus(c *Config) {
	c.Wait, c.Locality, c.Shortest = true, true, true
	c.Gap = 2 * time.Minute
}

// sticky are the rules of MQFQ-Sticky, with the paper's order or ours.
func sticky(c Config) rules {
	r := rules{window: true, sticky: true, key: byLongest}
	if c.Shortest {
		r.key = byShortest
	}
	return r
}

// PolicyNames lists the policies' names in the same order.
func PolicyNames() (names []string) {
	for _, p := range Policies() {
		names = append(names, p.Name)
	}
	return names
}

// ServedNames lists the policies that an invoker offers.
func ServedNames() (names []string) {
	for _, p := range Policies() {
		if !p.Rival {
			names = append(names, p.Name)
		}
	}
	return names
}

// Policy finds a policy by its name.
func Policy(name string) (info PolicyInfo, ok bool) {
	for _, p := range Policies() {
		if p.Name == name {
			return p, true
		}
	}
	return PolicyInfo{}, false
}

func unknown(name string) error {
	return fmt.Errorf("sched policy %q: must be one of %s", name, strings.Join(PolicyNames(), ", "))
}

// rules makes a policy: where a flow stands in the order of the flows that may run.
// Everything else is common to all policies.
type rules struct {
	window bool // the overrun T throttles
	strict bool // as Info has it
	sticky bool // Config.Shortest chooses its order
	key    func(s *Scheduler, f *flow) key
	// hooks follow the flows of a policy with a state of its own.
	hooks hooks
}

// hooks follow the course of flows.
type hooks interface {
	// queued and drained follow a flow that begins and ends to compete.
	queued(s *Scheduler, f *flow)
	drained(s *Scheduler, f *flow)
	// granted follows a grant, and names the rule that made it; RuleNone for the order.
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
func (noHooks) granted(*Scheduler, *flow) Rule { return RuleNone }
func (noHooks) undone(*Scheduler, *flow)       {}
func (noHooks) dropped(*Scheduler, *flow)      {}

func rulesOf(name string, cfg Config) (rules, error) {
	info, ok := Policy(name)
	if !ok {
		return rules{}, unknown(name)
	}
	r := info.rules(cfg)
	r.strict = info.Strict
	if cfg.Shortest && !r.sticky {
		return rules{}, fmt.Errorf("sched config Shortest=true: policy %s has an order of its own", name)
	}
	if r.hooks == nil {
		r.hooks = noHooks{}
	}
	return r, nil
}
