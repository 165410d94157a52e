package sched

import "time"

// Next grants a token to the flow and device that the policy puts first among
// those that may run and fit; false if there is none.
func (s *Scheduler) Next(now time.Duration) (Choice, bool) {
	s.clock(now)
	s.waitUntil, s.retryAt = never, never
	if s.backlogged == 0 || !s.anyFree() {
		return Choice{}, false
	}
	s.refresh()
	return s.search()
}

// Likely names the flow that the policy's order puts first now, whether or not
// a token is free, and the device where it would start soonest. It changes
// nothing that a decision depends on.
func (s *Scheduler) Likely(now time.Duration) (FlowID, int, bool) {
	s.clock(now)
	if s.backlogged == 0 || s.tokens == 0 {
		return FlowID{}, 0, false
	}
	s.refreshAll()
	f, _ := s.first()
	if f == nil {
		return FlowID{}, 0, false
	}
	return f.id, s.soonest(f).index, true
}

// first is the flow that runs first now and whether for being overdue; nil for none.
func (s *Scheduler) first() (f *flow, overdue bool) {
	if s.rules.overdue {
		if f := s.overdue(); f != nil {
			return f, true
		}
	}
	if len(s.ranked) == 0 {
		return nil, false
	}
	return s.ranked.top().of.ranked.top().of, false
}

// search goes through the order until a flow fits. The misfits before it are set
// aside meanwhile and keep their position.
func (s *Scheduler) search() (Choice, bool) {
	few := s.misfits.Len() == 0
	s.asked = 0
	s.retryMisfits()
	for tried, stale := 0, 0; ; tried++ {
		f, overdue := s.first()
		for ; f != nil && f.byStale.at > 0 && stale < maxTried; stale++ { // first by an old setup
			s.refreshFlow(f)
			f, overdue = s.first()
		}
		if f == nil {
			break
		}
		if tried == maxTried || s.asked >= maxAsked {
			s.retryAt = s.now + pause
			return Choice{}, false
		}
		if d, p, fits := s.fit(f, (*device).hasFree); fits {
			s.restore(few)
			rule := RuleNone
			if overdue {
				rule = RuleOverdue
				s.overdueAt = s.now + overduePause*f.setup/int64(s.tokens)
			}
			return s.grant(f, d, p, rule), true
		}
		s.setMisfit(f)
	}
	if s.untried > 0 {
		s.retryAt = s.now + pause
		return Choice{}, false
	}
	choice, ok := s.spare()
	s.restore(few)
	return choice, ok
}

// grant takes the head of f, charges it and brings f to its new position. With
// RuleNone the policy names the rule.
func (s *Scheduler) grant(f *flow, d *device, p Placement, rule Rule) Choice {
	it := f.head()
	f.queue.Remove(it.queued)
	it.queued, it.run = nil, s.price(f, it.cost, p)
	it.run.device = d
	f.flights = append(f.flights, it)
	d.flights = append(d.flights, it)
	f.waiting = false
	s.queued--
	s.inFlight++
	f.last, f.lastAt = s.rules.hooks.granted(s, f), s.now
	if rule != RuleNone {
		f.last = rule
	}
	s.charge(f, it.run.charge, it.run.above)
	s.setStale(f)
	s.queueShrank(f)
	return Choice{
		Invocation: it.id, Flow: f.id, Device: d.index, Placement: p,
		Waited: time.Duration(s.now - it.arrival), Charged: time.Duration(it.run.charge), Rule: f.last,
	}
}

// price is a run with what is expected and what is charged for it, to take back or
// correct later.
func (s *Scheduler) price(f *flow, cost int64, p Placement) *run {
	if cost == 0 {
		cost = s.usual(f)
	}
	r := &run{granted: s.now, setup: int64(p.Setup), estimate: cost, basis: cost}
	if s.cfg.CountSetup {
		r.basis += r.setup
	}
	if s.cfg.FixedCharge > 0 {
		r.basis = int64(s.cfg.FixedCharge)
	}
	r.charge = perWeight(r.basis, f.weight)
	r.above = perWeight(r.basis, f.group.weight)
	return r
}

// perWeight divides service by a weight.
func perWeight(service int64, weight float64) int64 {
	if weight == 1 {
		return service
	}
	return int64(float64(service) / weight)
}
