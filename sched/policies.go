package sched

import (
	"fmt"
	"time"
)

// Policy is an order of flows with its settings. Everything else is common to all policies:
// Scheduler is the engine under each. Another package can make its own with New; sched/sim has
// the policies that are compared with the served ones.
type Policy struct {
	Name string
	Text string // for lists and reports
	// Demand means that the policy is to run with demand-aware retention of
	// containers instead of least recently used.
	Demand bool
	// Window returns T. Without it flows may lead by any amount.
	Window func(Config) time.Duration
	// Adjust changes the defaults, if it is set.
	Adjust func(*Config)
	// Order returns the order of one scheduler. Without it the order is that of MQFQ-Sticky,
	// or shortest first with Config.Shortest.
	Order func() Order
}

// Policies lists the policies that an invoker offers.
func Policies() []Policy {
	return []Policy{
		{Name: "mqfq-sticky", Text: "fair queueing with an overrun window, longest queue first inside it", Window: Config.MaxOverrun},
		{Name: "sticky-plus", Text: "fair queueing with a wide window, shortest first inside it, which avoids cold starts", Demand: true, Window: Config.MaxOverrun, Adjust: stickyPlus},
		{Name: "fcfs", Text: "arrival order", Order: func() Order { return Order{Key: byAge} }},
	}
}

// stickyPlus turns on the choices and waits that are better than the paper's order.
func stickyPlus(c *Config) {
	c.Wait, c.Locality, c.Shortest = true, true, true
	c.Gap = 2 * time.Minute
}

// PolicyNames lists the policies' names in the same order.
func PolicyNames() (names []string) {
	for _, p := range Policies() {
		names = append(names, p.Name)
	}
	return names
}

// PolicyNamed finds a policy by its name.
func PolicyNamed(name string) (p Policy, ok bool) {
	for _, p := range Policies() {
		if p.Name == name {
			return p, true
		}
	}
	return Policy{}, false
}

// order returns the order under cfg.
func (p Policy) order(cfg Config) (Order, error) {
	switch {
	case p.Order == nil && cfg.Shortest:
		return Order{Key: byShortest}, nil
	case p.Order == nil:
		return Order{Key: byLongest}, nil
	case cfg.Shortest:
		return Order{}, fmt.Errorf("sched config Shortest=true: policy %s has an order of its own", p.Name)
	}
	return p.Order(), nil
}
