package scheduler

import (
	"slices"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Idle containers are removed for a new container (evictForContainer), for a
// reservation (evictForReservation) and for host memory (freeHost). Moving their
// memory to the host is decided by gpu.Ledger and by enforceLimit.

// evictForContainer removes the idle container of a device that the pool's rule
// removes first; false if there is none.
func (s *Scheduler) evictForContainer(dev *device) bool {
	var victim *container
	var least gpu.Candidate
	for _, c := range dev.containers {
		if !c.isIdle() {
			continue
		}
		if a := s.candidate(c); victim == nil || s.cfg.Pool.Rule.Before(&a, &least) {
			victim, least = c, a
		}
	}
	if victim == nil {
		return false
	}
	s.takeAway(victim)
	return true
}

// takeAway removes a container for others, when its runs have left.
func (s *Scheduler) takeAway(c *container) {
	c.failed = true
	if c.isIdle() {
		s.remove(c)
	}
}

// candidate describes an idle container to the pool's rule.
func (s *Scheduler) candidate(c *container) gpu.Candidate {
	f := c.rev.flow
	a := gpu.Candidate{Container: c.id, LastUsed: c.lastUsed}
	if s.cfg.Pool.Rule != gpu.LRU {
		a.State = s.flowState(f)
	}
	if s.cfg.Pool.Rule == gpu.DemandAware {
		a.Demand = f.demand.Rate(s.now) * c.rev.cold.Expected()
		for _, other := range c.rev.containers {
			if other.dev == c.dev && !other.removing {
				a.Siblings++
			}
		}
	}
	return a
}

// flowState is a flow's state, as far as its containers are concerned.
func (s *Scheduler) flowState(f *flow) gpu.FlowState {
	switch state := s.policy.State(f.id); {
	case state == sched.Throttled:
		return gpu.Throttled
	case f.queue.Len() > 0:
		return gpu.Backlogged
	case state == sched.Active:
		return gpu.Active
	}
	return gpu.Inactive
}

// evictForReservation removes idle containers for a reservation that could not stand
// even if all idle memory were evicted: a context stays on the device as long as
// its container lives. When that does not help either, and nothing runs or is being
// removed, nor is a container about to be idle, the reservation waits in vain: the
// run goes back to its queue, where a free device may serve it.
//
// It reports whether a run went back.
func (s *Scheduler) evictForReservation(dev *device) (requeued bool) {
	for dev.ledger.Shortfall() > 0 && s.evictForContainer(dev) {
	}
	if dev.ledger.Shortfall() == 0 || dev.ledger.Running() || dev.emptying() {
		return false
	}
	var hopeless []*run
	for _, c := range dev.containers {
		hopeless = append(hopeless, c.waiting...)
	}
	s.requeueAll(hopeless)
	return len(hopeless) > 0
}

// emptying reports whether a run is inside a container of the device. A run that has returned
// its token leaves after its logs are read.
func (dev *device) emptying() bool {
	return slices.ContainsFunc(dev.containers, func(c *container) bool { return c.inside() > 0 })
}

// open reports whether a device can be used and has a free token.
func (dev *device) open() bool { return dev.lost == "" && dev.inFlight < dev.d }
