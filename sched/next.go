package sched

import "time"

// Next grants a token to the flow and device that the policy puts first among
// those that may run and fit; false if there is none.
func (s *Scheduler) Next(now time.Duration) (Choice, bool) {
	s.clock(now)
	s.holdUntil = never
	if s.free == 0 || s.backlogged == 0 {
		return Choice{}, false
	}
	s.refresh()
	if f, ok := s.impatient(); ok {
		if d, facts, ok := s.fit(f); ok {
			return s.grant(f, d, facts, true), true
		}
	}
	return s.search()
}

// search goes through the order until a flow fits. Those passed by are set
// aside meanwhile and keep their place.
func (s *Scheduler) search() (c Choice, ok bool) {
	for {
		f, some := s.rules.first(s, s.now)
		if !some {
			break
		}
		if d, facts, fits := s.fit(f); fits {
			s.restore()
			return s.grant(f, d, facts, false), true
		}
		s.order.remove(f)
		s.aside = append(s.aside, f)
	}
	s.restore()
	return c, false
}

func (s *Scheduler) restore() {
	for _, f := range s.aside {
		s.reorder(f)
	}
	s.aside = s.aside[:0]
}

// impatient is the flow of least virtual time, if its head has waited for
// longer than Patience.
func (s *Scheduler) impatient() (*flow, bool) {
	if s.cfg.Patience == 0 {
		return nil, false
	}
	g := s.groups[s.root.eligible.top().slot]
	f := s.flows[g.level.eligible.top().slot]
	return f, s.now-s.head(f).arrival > int64(s.cfg.Patience)
}

// fit chooses the device with a free token where the flow starts soonest; among
// equals the one with most tokens free, then the first. Flow, token and
// container are thus always of one device.
func (s *Scheduler) fit(f *flow) (best *device, facts Facts, ok bool) {
	for _, d := range s.devices {
		if d.free() == 0 {
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
func (s *Scheduler) grant(f *flow, d *device, facts Facts, impatient bool) Choice {
	i := f.queue.head
	s.items.unlink(&f.queue, i)
	it, fl := &s.items.all[i], s.items.depart(i)
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
	if impatient {
		f.last = RulePatience
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

// Touch says that View would answer differently for a flow now.
func (s *Scheduler) Touch(now time.Duration, id FlowID) {
	s.clock(now)
	if f, ok := s.byID[id]; ok {
		s.markStale(f)
	}
}
