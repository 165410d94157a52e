package sched

import (
	"cmp"
	"slices"
	"time"
)

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

// Likely names the flow that the policy's order puts first now, whether or not
// a token is free, and the device where it would start soonest. It changes
// nothing that a decision depends on.
func (s *Scheduler) Likely(now time.Duration) (FlowID, int, bool) {
	s.clock(now)
	if s.backlogged == 0 || s.tokens == 0 {
		return FlowID{}, 0, false
	}
	s.refresh()
	f, _ := s.first()
	if f == nil {
		return FlowID{}, 0, false
	}
	return f.id, s.soonest(f).index, true
}

// first is the flow that goes first now and whether for being overdue; nil for none.
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

// maxAsked is how many flows that do not fit one call of Next asks View about,
// and maxAnswers how many answers it takes for them: with very many that fit
// nowhere a call must not take longer than with few. Those asked in vain are
// set aside, and the next call goes on behind them.
const (
	maxAsked   = 16
	maxAnswers = 128
)

// pause is how long Next rests when it did not come to the end of those that may
// run: a thousand times a second it goes on, and other events come in between.
const pause = int64(time.Millisecond)

// search goes through the order until a flow fits. Those passed by are set
// aside meanwhile and keep their position.
func (s *Scheduler) search() (Choice, bool) {
	few := s.passed.Len() == 0
	s.asked = 0
	s.askPassed()
	for asked := 0; ; asked++ {
		f, overdue := s.first()
		if f == nil {
			break
		}
		if asked == maxAsked || s.asked >= maxAnswers {
			s.askAt = s.now + pause
			return Choice{}, false
		}
		if d, p, fits := s.fit(f, (*device).hasFree); fits {
			s.restore(few)
			if overdue {
				return s.grant(f, d, p, RuleOverdue), true
			}
			return s.grant(f, d, p, RuleNone), true
		}
		s.pass(f)
	}
	if s.toAsk > 0 {
		s.askAt = s.now + pause
		return Choice{}, false
	}
	c, ok := s.reach()
	s.restore(few)
	return c, ok
}

// restore gives those that this call set aside their position again, unless they
// are so many that the next call shall go on behind them.
func (s *Scheduler) restore(few bool) {
	for few && s.passed.Len() > 0 {
		s.rank(s.passed.Front().Value.(*flow))
	}
}

// Flows that fit nowhere are asked about in vain. While they are few they keep
// their position in the order and every call of Next asks them again. When they
// are many they wait in a list, outside of the order, of which each call asks
// a few, so that no call takes long and none is forgotten. A flow of which
// something changed leaves the list at once.

// askedAgain is how many flows of the list one call of Next asks.
const askedAgain = 4

// pass puts a flow that fits nowhere at the end of the list.
func (s *Scheduler) pass(f *flow) {
	s.unrank(f)
	f.passed = s.passed.PushBack(f)
}

// unpass takes a flow out of the list.
func (s *Scheduler) unpass(f *flow) {
	if f.passed == nil {
		return
	}
	s.passed.Remove(f.passed)
	f.passed = nil
	s.toAsk = min(s.toAsk, s.passed.Len())
}

// askPassed asks the first of the list again. One that fits by now comes back to its
// position in the order, one that does not goes to the end.
func (s *Scheduler) askPassed() {
	for range min(askedAgain, max(1, maxAnswers/max(1, len(s.devices))), s.passed.Len()) {
		f := s.passed.Front().Value.(*flow)
		s.unpass(f)
		if _, _, fits := s.fit(f, (*device).hasFree); fits {
			s.rank(f)
		} else {
			s.pass(f)
		}
		s.toAsk = max(0, s.toAsk-1)
	}
}

// retryPassed follows an event by which any flow may fit that did not.
func (s *Scheduler) retryPassed() { s.toAsk, s.probed = s.passed.Len(), 0 }

// grant takes the head of f, charges it and brings f to its new position. With
// RuleNone the policy names the rule.
func (s *Scheduler) grant(f *flow, d *device, p Placement, rule Rule) Choice {
	it := f.head()
	f.queue.Remove(it.queued)
	it.queued, it.run = nil, s.price(f, it.cost, p)
	it.run.device = d
	f.flights = append(f.flights, it)
	d.flights = append(d.flights, it)
	f.waited += s.now - it.arrival
	f.waiting = false
	s.queued--
	s.inFlight++
	s.recount(d)
	f.last, f.lastAt = s.rules.hooks.granted(s, f), s.now
	if rule != RuleNone {
		f.last = rule
	}
	s.chosen[f.last]++
	s.charge(f, it.run.charge, it.run.above)
	s.setStale(f)
	s.lost(f)
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
	r.charge = over(r.basis, f.weight)
	r.above = over(r.basis, f.group.weight)
	return r
}

// over divides service by a weight.
func over(service int64, weight float64) int64 {
	if weight == 1 {
		return service
	}
	return int64(float64(service) / weight)
}

// A window bounds how far two flows get apart, not how long one of many waits:
// with N others inside it a call may see N times T go by first. A flow that asks
// for little has the shortest queue, perhaps no container, and is last in any
// order that looks for locality or for short work. Yet least virtual time first
// would give that locality up.
//
// So a head has a limit: once it has waited Slowdown times what it takes, setup
// included, and its flow is among those served least and has nothing in flight,
// it goes before all others. A flow that asks for less than its share comes back at
// global virtual time and is among those at once; one that asks for more is not,
// and only the window counts for it. Every choice stays inside the window, and so
// the bound on the gap stands.

// maxLeast is how many flows and namespaces of least virtual time may be overdue:
// one that takes long must not hide those beside it.
const maxLeast = 4

// overdue finds the flow of least virtual time whose head is overdue, among the
// few served least of the namespaces served least; nil for none.
func (s *Scheduler) overdue() *flow {
	if s.cfg.Slowdown == 0 {
		return nil
	}
	var groups [maxLeast]*node[*group]
	var flows [maxLeast]*node[*flow]
	for _, g := range s.root.eligible.least(groups[:]) {
		for _, f := range g.of.level.eligible.least(flows[:]) {
			if s.isOverdue(f.of) {
				return f.of
			}
		}
	}
	return nil
}

// isOverdue says that the head of an eligible flow waited beyond its limit.
func (s *Scheduler) isOverdue(f *flow) bool {
	if f.passed != nil || len(f.flights) > 0 {
		return false
	}
	waited := s.now - f.head().arrival
	return waited >= int64(s.cfg.MinWait) && float64(waited) >= s.cfg.Slowdown*float64(s.takes(f))
}

// A flow that fits on no free device holds global virtual time: what runs
// beside it is throttled at T, the device it waits for drains, and it fits. But
// a device that idles although nothing inside the window fits there would idle
// for nothing. There the throttled flow of least virtual time runs, and global
// virtual time is raised until that flow leads by T: what fits nowhere loses so
// much of its claim as it could not have used, and keeps T of it.

// openFor is how long a device stays open to what is beyond the window once it was
// seen to idle. Then it must drain again: what could not fit beside others may fit
// alone by then.
const openFor = int64(10 * time.Second)

// maxReach is how many namespaces, and how many flows of each, one call asks.
const maxReach = 16

// reach grants to a flow beyond the window. It is called when all that may run
// was asked and fits on no free device.
func (s *Scheduler) reach() (Choice, bool) {
	open := func(d *device) bool { return d.free() > 0 && (len(d.flights) == 0 || s.now < d.openUntil) }
	if !s.rules.window || s.holdUntil != never || !slices.ContainsFunc(s.devices, open) {
		return Choice{}, false
	}
	n := len(s.root.eligible)
	candidates := s.throttlers()
	for _, g := range candidates {
		f, d, p, ok := s.reachIn(g, open)
		if !ok {
			continue
		}
		s.raise(g, f.vt)
		if len(d.flights) == 0 {
			d.openUntil = s.now + openFor
		}
		return s.grant(f, d, p, RuleSpare), true
	}
	s.probed += min(n, maxReach)
	switch {
	case s.probed < n:
		s.askAt = s.now + pause
	case len(candidates) > 0: // the first of it fits nowhere either
		s.raise(candidates[0], candidates[0].level.throttled.top().key)
		s.askAt = s.now
	case len(s.root.throttled) > 0:
		s.root.raise(s.root.throttled.top().key - s.overrun)
		s.releaseGroups()
		s.askAt = s.now
	}
	return Choice{}, false
}

// throttlers lists namespaces that may run and have throttled flows, least virtual
// time first; of very many the next ones with each call.
func (s *Scheduler) throttlers() (groups []*group) {
	n, start := len(s.root.eligible), 0
	if n > maxReach {
		start = s.probed
	}
	for i := range min(n, maxReach) {
		if g := s.root.eligible[(start+i)%n].of; len(g.level.throttled) > 0 {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.vt, b.vt), cmp.Compare(a.serial, b.serial))
	})
	return groups
}

// reachIn finds the throttled flow of least virtual time, of the first few, that
// fits on an open device.
func (s *Scheduler) reachIn(g *group, open func(*device) bool) (f *flow, d *device, p Placement, ok bool) {
	var first [maxReach]*node[*flow]
	for _, n := range g.level.throttled.least(first[:]) {
		if d, p, ok = s.fit(n.of, open); ok {
			return n.of, d, p, true
		}
	}
	return nil, nil, Placement{}, false
}

// raise moves the global virtual time of a namespace up until a flow at vt leads
// by no more than T.
func (s *Scheduler) raise(g *group, vt int64) {
	g.level.raise(vt - s.overrun)
	s.releaseFlows(g)
}
