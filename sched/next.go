package sched

import "time"

// Next grants a token to the flow and device that the policy puts first among
// those that may run and fit; false if there is none.
func (s *Scheduler) Next(now time.Duration) (Choice, bool) {
	s.clock(now)
	s.holdUntil, s.askAt = never, never
	if s.free == 0 || s.backlogged == 0 {
		return Choice{}, false
	}
	s.refresh()
	return s.search()
}

// maxAsked is how many flows that do not fit one call of Next asks View about,
// and maxLooks how many answers it takes for them: with very many that fit
// nowhere a call must not take longer than with few. Those asked in vain are
// set aside, and the next call goes on behind them.
const (
	maxAsked = 16
	maxLooks = 128
)

// search goes through the order until a flow fits. Those passed by are set
// aside meanwhile and keep their place.
func (s *Scheduler) search() (Choice, bool) {
	few := s.passedN == 0
	s.looked, s.settled = 0, false
	s.askPassed()
	for asked := 0; ; asked++ {
		f, some := s.rules.first(s, s.now)
		if !some {
			break
		}
		if asked == maxAsked || s.looked >= maxLooks {
			s.askAt = s.now + pace
			return Choice{}, false
		}
		if d, facts, fits := s.fit(f, false); fits {
			s.restore(few)
			return s.grant(f, d, facts), true
		}
		s.pass(f)
	}
	if s.toAsk > 0 {
		s.askAt = s.now + pace
		return Choice{}, false
	}
	c, ok := s.reach()
	s.restore(few)
	return c, ok
}

// restore gives those that this call set aside their place again, unless they
// are so many that the next call shall go on behind them.
func (s *Scheduler) restore(few bool) {
	for few && s.passedN > 0 {
		s.reorder(s.flows.at(s.passedHead))
	}
}

// grant takes the head of f, charges it and brings f to its new place.
func (s *Scheduler) grant(f *flow, d *device, facts Facts) Choice {
	i := f.queue.head
	s.items.unlink(&f.queue, i)
	it, fl := &s.items.all[i], s.items.depart(f, i)
	s.price(fl, f, s.items.costs[i], facts)
	fl.device, fl.granted = d.key, s.now
	f.inFlight++
	f.waited += s.now - it.arrival
	f.holding = false
	s.items.append(&d.items, i)
	s.queued--
	s.inFlight++
	s.recount(d)
	f.last, f.lastAt = s.rules.granted(s, f), s.now
	if f.beyond {
		f.beyond, f.last = false, RuleSpare
	}
	s.chosen[f.last]++
	s.charge(f, fl.charge, fl.above)
	s.markStale(f)
	s.lost(f)
	return Choice{
		Item: it.id, Flow: f.id, Device: d.index, Facts: facts,
		Waited: time.Duration(s.now - it.arrival), Charged: time.Duration(fl.charge), Rule: f.last,
	}
}

// price notes in the flight what is expected and what is charged for it, to
// take back or correct later.
func (s *Scheduler) price(fl *flight, f *flow, cost int64, facts Facts) {
	if cost == 0 {
		cost = s.usual(f)
	}
	fl.setup, fl.estimate, fl.basis = int64(facts.Setup), cost, cost
	if s.cfg.CountSetup {
		fl.basis += fl.setup
	}
	if s.cfg.FixedCharge > 0 {
		fl.basis = int64(s.cfg.FixedCharge)
	}
	fl.charge = over(fl.basis, f.weight)
	fl.above = over(fl.basis, f.group.weight)
}

// over divides service by a weight.
func over(service int64, weight float64) int64 {
	if weight == 1 {
		return service
	}
	return int64(float64(service) / weight)
}
