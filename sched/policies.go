package sched

import (
	"fmt"
	"time"
)

// Info describes a policy for lists and reports.
type Info struct {
	Name string
	Text string
	// NoPool says that the policy stands for a server without a warm pool
	// and memory management: every start is to be cold.
	NoPool bool
	// Demand says that the policy is meant to run with demand-aware
	// retention of containers instead of least recently used.
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
		{Name: "batch", Text: "drain the queue that holds the oldest item"},
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
	return fmt.Errorf("sched policy %q: must be one of %s", name, names())
}

func names() string {
	list := ""
	for i, p := range Policies() {
		if i > 0 {
			list += ", "
		}
		list += p.Name
	}
	return list
}

// stickyPlus turns on what chooses or waits better than the paper's order.
func stickyPlus(c *Config) {
	c.Wait, c.Locality, c.Shortest = true, true, true
	c.Gap = 2 * time.Minute
}
