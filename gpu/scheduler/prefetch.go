package scheduler

import (
	"slices"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// follow lets memory follow the states of flows: the idle containers of an active
// flow are prefetched where memory is free, those of a throttled or inactive one are
// evictable.
func (s *Scheduler) follow() {
	for _, change := range s.policy.Changes() {
		if change.Flow.Function == "" {
			s.followNamespace(change)
			continue
		}
		f := s.flows[change.Flow]
		if f == nil {
			continue
		}
		s.followFlow(f, change.To)
		if change.To == sched.Inactive {
			s.forget(f)
		}
	}
}

// followNamespace follows a change of all backlogged flows of a namespace.
func (s *Scheduler) followNamespace(change sched.Change) {
	ns := s.namespaces[change.Flow.Namespace]
	if ns == nil {
		return
	}
	for _, f := range ns.withContainers {
		if f.queue.Len() > 0 {
			s.followFlow(f, change.To)
		}
	}
}

func (s *Scheduler) followFlow(f *flow, to sched.State) {
	if s.cfg.SwapEachRun {
		return // everything is evicted after its run, whatever the state of its flow
	}
	for _, rev := range f.revs {
		for _, c := range slices.Backward(rev.containers) {
			if !c.isIdle() {
				continue
			}
			stays := to == sched.Active && s.withinLimit(c)
			c.dev.ledger.SetEvictable(s.now, c.id, !stays)
			if stays && s.cfg.PrefetchActive {
				c.dev.ledger.Prefetch(s.now, c.id, false)
			}
		}
	}
}

// prefetchNext moves in the memory of the flow that runs next, during the current
// runs.
func (s *Scheduler) prefetchNext() {
	if !s.cfg.PrefetchNext {
		return
	}
	id, index, ok := s.policy.Likely(s.now)
	f := s.flows[id]
	if !ok || f == nil {
		return
	}
	var next *container
	for _, c := range f.next().containers {
		if c.dev.Index == index && c.isIdle() && (next == nil || c.preferred(next)) {
			next = c
		}
	}
	if next != nil && s.withinLimit(next) {
		next.dev.ledger.Prefetch(s.now, next.id, true)
	}
}
