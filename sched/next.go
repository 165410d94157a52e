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
	s.askPassed()
	looks := maxLooks
	for asked := 0; ; asked++ {
		f, some := s.rules.first(s, s.now)
		if !some {
			break
		}
		if asked == maxAsked || looks <= 0 {
			s.askAt = s.now + pace
			return Choice{}, false
		}
		looks -= len(s.devices)
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
		s.reorder(s.flows[s.passedHead])
	}
}

// fit chooses the device with a free token where the flow starts soonest; among
// equals the one with most tokens free, then the first. Flow, token and
// container are thus always of one device. With open only devices that nothing
// inside the window can use are looked at.
func (s *Scheduler) fit(f *flow, open bool) (best *device, facts Facts, ok bool) {
	for _, d := range s.devices {
		if d.free() == 0 || open && !s.isOpen(d) {
			continue
		}
		a := s.look(f, d)
		if !a.Fits {
			continue
		}
		if best == nil || sooner(a, d, facts, best) {
			best, facts = d, a
		}
	}
	if best == nil || s.waits(f, facts) {
		s.held++
		return nil, Facts{}, false
	}
	return best, facts, true
}

func sooner(a Facts, d *device, b Facts, than *device) bool {
	if a.Setup != b.Setup {
		return a.Setup < b.Setup
	}
	if a.Start != b.Start {
		return a.Start < b.Start
	}
	return d.free() > than.free()
}

func (s *Scheduler) look(f *flow, d *device) Facts {
	if s.view == nil {
		return Facts{Fits: true}
	}
	a := s.view.Facts(f.id, d.index)
	a.Setup = min(max(a.Setup, 0), limit)
	return a
}

// grant takes the head of f, charges it and brings f to its new place.
func (s *Scheduler) grant(f *flow, d *device, facts Facts) Choice {
	i := f.queue.head
	s.items.unlink(&f.queue, i)
	it, fl := &s.items.all[i], s.items.depart(f, i)
	s.price(fl, f, it.cost, facts)
	fl.device, fl.granted = d.key, s.now
	f.inFlight++
	f.waited += s.now - it.arrival
	f.holding = false
	s.items.append(&d.items, i)
	s.queued--
	s.inFlight++
	s.recount()
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

// markStale has View asked again about a flow before the next choice.
func (s *Scheduler) markStale(f *flow) {
	if !f.stale && s.rules.facts() {
		f.stale = true
		s.stale = append(s.stale, f)
	}
}

// refresh asks View for the least setup of each stale flow on any device.
func (s *Scheduler) refresh() {
	for _, f := range s.stale {
		if !f.stale {
			continue
		}
		f.stale = false
		if f.standing == out {
			continue
		}
		if setup := s.leastSetup(f); setup != f.setup {
			f.setup = setup
			s.reorder(f)
		}
	}
	s.stale = s.stale[:0]
}

func (s *Scheduler) leastSetup(f *flow) int64 {
	least := int64(limit)
	for _, d := range s.devices {
		if !d.leaving {
			least = min(least, int64(s.look(f, d).Setup))
		}
	}
	return least
}

// Touch says that View would answer differently for a flow now. What one flow
// gave up may make another fit.
func (s *Scheduler) Touch(now time.Duration, id FlowID) {
	s.clock(now)
	s.changedRoom()
	if f, ok := s.byID[id]; ok {
		s.markStale(f)
		if f.passed {
			s.reorder(f)
		}
	}
}
