package sched

import "time"

// While misfits, those that may run and did not fit when they were tried, are few, they
// keep their position in the order and every call of Next tries them again. When they
// are many they wait in a list of their reach, outside of the order, of which each call
// tries a few, so that no call takes long and none is forgotten. A flow of which
// something changed leaves the list at once.

// maxTried is how many flows of the order one call of Next tries, retriedMisfits how
// many of the lists, and maxAsked for how many placements it asks in all, each flow
// counting as one more. The next call goes on behind them.
const (
	maxTried       = 16
	retriedMisfits = 4
	maxAsked       = 128
)

// pause is how long Next waits when it did not come to the end of those that may
// run: it goes on a thousand times a second, with other events in between.
const pause = int64(time.Millisecond)

func (s *Scheduler) retrySoon() { s.retryAt = s.now + pause }

// Next grants a token to the flow and device that the policy puts first among
// those that may run and fit; false if there is none.
func (s *Scheduler) Next(now time.Duration) (Choice, bool) {
	s.clock(now)
	s.waitUntil, s.retryAt = never, never
	if s.waiting.Len() == 0 || !s.anyFree() {
		return Choice{}, false
	}
	s.refresh()
	s.tried, s.asked = 0, 0
	for _, c := range s.active {
		c.few = c.misfits.Len() == 0
	}
	choice, ok, complete := s.search()
	if !complete {
		s.retrySoon()
		return Choice{}, false
	}
	for _, c := range s.active {
		for c.few && c.misfits.Len() > 0 {
			s.rank(c.misfits.Front().Value.(*flow))
		}
	}
	return choice, ok
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
	f, _ := s.first(nil)
	if f == nil {
		return FlowID{}, 0, false
	}
	return f.id, s.soonest(f).index, true
}

// first is the flow that comes first now, and whether it does so because its head is
// overdue; nil for none. Flows that none of the devices could serve are left out; with
// nil devices none is.
func (s *Scheduler) first(devices []byte) (f *flow, overdue bool) {
	if s.rules.overdue {
		if f := s.overdue(devices); f != nil {
			return f, true
		}
	}
	var first *share
	for _, c := range s.active {
		if len(c.ranked) == 0 || devices != nil && !c.devices.meets(devices) {
			continue
		}
		if sh := c.ranked.top().of; first == nil || sh.isBefore(first) {
			first = sh
		}
	}
	if first == nil {
		return nil, false
	}
	return first.ranked.top().of, false
}

// freeDevices is the set of devices with a free token.
func (s *Scheduler) freeDevices() []byte {
	s.free = s.setOf(s.free, (*device).hasFree)
	return s.free
}

// search goes through the order until a flow fits. The misfits before it are set
// aside meanwhile and keep their position. complete is false where the next call is to
// go on behind them.
func (s *Scheduler) search() (choice Choice, ok, complete bool) {
	free := s.freeDevices()
	s.retryMisfits(free)
	for stale := 0; ; {
		f, overdue := s.first(free)
		if f == nil {
			return s.searchSpare()
		}
		if f.byStale.at > 0 && stale < maxTried { // first by an old setup
			stale++
			s.measure(f)
			continue
		}
		if s.exhausted() {
			return Choice{}, false, false
		}
		if d, p, fits := s.fit(f, (*device).hasFree); fits {
			rule := RuleNone
			if overdue {
				rule = RuleOverdue
				s.overdueAt = s.now + overduePause*f.setup/int64(s.tokens)
			}
			return s.grant(f, d, p, rule), true, true
		}
		s.setMisfit(f)
	}
}

// exhausted reports whether a call of Next has done enough.
func (s *Scheduler) exhausted() bool { return s.tried >= maxTried || s.asked >= maxAsked }

// setMisfit puts a flow that was tried at the end of its list.
func (s *Scheduler) setMisfit(f *flow) {
	s.tried++
	s.unrank(f)
	f.misfit = f.class.misfits.PushBack(f)
	s.want(f, s.crowded)
}

// want keeps the devices of a set for a flow inside the window: they drain until it fits.
func (s *Scheduler) want(f *flow, set []byte) {
	if f.standing == throttled || f.group.standing == throttled {
		set = nil
	}
	if f.wants == "" && len(set) == 0 {
		return
	}
	now := deviceSet(set)
	for _, d := range s.devices {
		if f.wants.has(d) {
			d.wanted--
		}
		if now.has(d) {
			d.wanted++
		}
	}
	f.wants = now
}

// unsetMisfit takes a flow out of its list.
func (s *Scheduler) unsetMisfit(f *flow) {
	if f.misfit == nil {
		return
	}
	c := f.class
	c.misfits.Remove(f.misfit)
	f.misfit = nil
	s.want(f, nil)
	c.untried = min(c.untried, c.misfits.Len())
}

// retryMisfits tries the first of the lists again, where a device with a token could
// serve them. One that fits by now returns to the order, the others move to the end of
// their list.
func (s *Scheduler) retryMisfits(free []byte) {
	if len(s.active) == 0 {
		return
	}
	n := max(1, min(retriedMisfits, maxAsked/max(1, len(s.devices)))/len(s.active))
	s.calls++
	for i := range s.active {
		c := s.active[(s.calls+i)%len(s.active)]
		if !c.devices.meets(free) {
			continue
		}
		for range min(n, c.misfits.Len()) {
			f := c.misfits.Front().Value.(*flow)
			if _, _, fits := s.fit(f, (*device).hasFree); fits {
				s.rank(f)
			} else {
				c.misfits.MoveToBack(f.misfit)
				s.want(f, s.crowded)
			}
			c.untried = max(0, c.untried-1)
		}
		if s.asked >= maxAsked/2 {
			break
		}
	}
	s.asked = 0
}

// somethingFreed follows an event by which any misfit may fit.
func (s *Scheduler) somethingFreed() {
	for _, c := range s.active {
		c.untried = c.misfits.Len()
	}
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
	it.run.spare, it.run.spareAbove = f.standing == throttled, f.group.standing == throttled
	s.chargeRun(f, it.run, it.run.charge, it.run.above)
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
