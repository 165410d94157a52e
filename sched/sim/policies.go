package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Policy is a policy that can be simulated: a served one, or a rival. Rivals are there to be
// compared with. They have no bound on fairness, or are slower than a served policy with the
// same bound.
type Policy struct {
	sched.Policy
	// NoPool means that the policy stands for a server without a warm pool
	// and memory management: every start is to be cold.
	NoPool bool
	// OneToken means that a device has one token, whatever is configured.
	OneToken bool
}

// Policies lists the policies in the order of the paper's comparison.
func Policies() []Policy {
	served := func(name string) Policy {
		p, _ := sched.PolicyNamed(name)
		return Policy{Policy: p}
	}
	return []Policy{
		served(mqfq),
		served(plus),
		{Policy: sched.Policy{Name: "mqfq", Text: "fair queueing with an overrun window, least virtual time first", Window: sched.Config.MaxOverrun, Order: by(sched.Flow.VirtualTime)}},
		{Policy: sched.Policy{Name: "sfq", Text: "start-time fair queueing: no overrun, one token a device", Window: noOverrun, Order: by(sched.Flow.VirtualTime),
			Adjust: func(c *sched.Config) { c.Overrun = 0 }}, OneToken: true},
		served("fcfs"),
		{Policy: sched.Policy{Name: "batch", Text: "drain the queue that holds the oldest invocation", Order: newBatch}},
		{Policy: sched.Policy{Name: "paella", Text: "shortest expected first, with a limit on each function's deficit", Order: newPaella}},
		{Policy: sched.Policy{Name: "sjf", Text: "shortest expected first", Order: by(service)}},
		{Policy: sched.Policy{Name: "eevdf", Text: "earliest deadline: arrival plus expected time, cold start included", Order: by(deadline)}},
		{Policy: sched.Policy{Name: "naive", Text: "arrival order without warm pool or memory management", Order: by(age)}, NoPool: true},
	}
}

// PolicyNames lists the policies' names in the same order.
func PolicyNames() (names []string) {
	for _, p := range Policies() {
		names = append(names, p.Name)
	}
	return names
}

// policyNamed finds a policy by its name.
func policyNamed(name string) (Policy, error) {
	for _, p := range Policies() {
		if p.Name == name {
			return p, nil
		}
	}
	return Policy{}, fmt.Errorf("--policy %q: not one of %s", name, strings.Join(PolicyNames(), ", "))
}

// newPolicy makes a policy for the invoker's scheduler, which by itself knows the served
// policies only.
func newPolicy(name string, cfg sched.Config, view sched.View) (scheduler.Policy, error) {
	p, err := policyNamed(name)
	if err != nil {
		return nil, err
	}
	s, err := p.New(cfg, view)
	switch {
	case err != nil:
		return nil, err
	case p.OneToken:
		return oneToken{s}, nil
	}
	return s, nil
}

// oneToken is a scheduler of devices with one token each at most.
type oneToken struct{ *sched.Scheduler }

// AddDevice brings a device with one token.
func (s oneToken) AddDevice(now time.Duration, device, tokens int) {
	s.Scheduler.AddDevice(now, device, min(tokens, 1))
}

// SetTokens ignores a second token.
func (s oneToken) SetTokens(now time.Duration, device, tokens int) {
	s.Scheduler.SetTokens(now, device, min(tokens, 1))
}

func noOverrun(sched.Config) time.Duration { return 0 }

func by(key func(sched.Flow) sched.Key) func() sched.Order {
	return func() sched.Order { return sched.Order{Key: key} }
}

// age is arrival order: the heads of all flows hold the oldest invocation.
func age(sched.Flow) sched.Key { return sched.Key{} }

// service takes the shortest expected service.
func service(f sched.Flow) sched.Key { return sched.Key{int64(f.Expected())} }

// deadline takes the earliest deadline: arrival plus expected time, the cold
// start included when no container of the flow is idle.
func deadline(f sched.Flow) sched.Key {
	return sched.Key{int64(f.Arrived() + f.Setup() + f.Expected())}
}
