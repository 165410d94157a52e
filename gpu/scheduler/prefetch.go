package scheduler

import (
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// follow lets memory follow the states of flows: the idle containers of a flow that becomes
// active are prefetched where memory is free.
func (s *Scheduler) follow() {
	for _, change := range s.policy.Changes() {
		f := s.flows[change.Flow]
		if f == nil {
			continue
		}
		s.hold(f)
		if change.To == sched.Active && s.cfg.PrefetchActive && !s.cfg.SwapEachRun {
			s.prefetch(f)
		}
		if change.To == sched.Inactive {
			s.forget(f)
		}
	}
}

// prefetch moves in the memory of a flow's idle containers, the youngest first.
func (s *Scheduler) prefetch(f *flow) {
	f.idleContainers(func(c *container) {
		if s.withinLimit(c) {
			c.dev.ledger.Prefetch(s.now, c.id)
		}
	})
}

// hold tells the ledgers how willingly the memory of a flow's idle containers is given up.
func (s *Scheduler) hold(f *flow) {
	if f.containers == 0 {
		return
	}
	to := s.holdOf(f)
	f.idleContainers(func(c *container) { c.dev.ledger.SetHold(s.now, c.id, to) })
}

// holdOf is how willingly the memory of a flow's idle containers is given up: first that of
// flows without queued work, then that of flows that may not run now.
func (s *Scheduler) holdOf(f *flow) gpu.Hold {
	state := s.policy.State(f.id)
	switch {
	case s.cfg.SwapEachRun || state == sched.Inactive:
		return gpu.Unneeded
	case f.queue.Len() == 0:
		return gpu.Expected
	case state == sched.Throttled:
		return gpu.NeededLater
	}
	return gpu.NeededNext
}

// idleContainers calls a function for each idle container of a flow, the youngest of a
// revision first.
func (f *flow) idleContainers(do func(*container)) {
	for _, rev := range f.revs {
		for i := len(rev.containers) - 1; i >= 0; i-- {
			if c := rev.containers[i]; c.isIdle() {
				do(c)
			}
		}
	}
}
