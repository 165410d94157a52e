package sched

import "time"

// A flow that does not fit holds global virtual time back: what runs beside it is
// throttled at T, the device where it would fit if less ran drains, and it fits. But a
// device must not idle when nothing inside the window can use it. There flows run that
// are beyond the window.
//
// What they get so is spare: it takes nothing from those inside, and virtual time and
// the window are as if it had not been. The same on both levels: a namespace inside the
// window comes first and pays with its virtual time, one beyond it has spare time; so
// with the flows of a namespace.
//
// Members beyond the window go by deficit round robin, with turns of a second over their
// weights. The one whose turn is longest ago comes first, of those that fit. One that
// used more than its turn passes as many turns: of two that fit at the same times, each
// has one turn between two turns of the other, however others come, go and fit.

// quantum is the time over its weight that a member uses in one turn.
const quantum = int64(time.Second)

// maxPassed is how many turns one call of Next has members pass. The next call goes on.
const maxPassed = 128

// roundRobin is the place of a member among those beyond the window.
type roundRobin struct {
	position int64 // counts in its level: the least is first
	used     int64 // of its turn, more than quantum where it is to pass turns
}

// enter is behind all others. What was used beforehand stays.
func (r *roundRobin) enter(last *int64) {
	*last++
	r.position, r.used = *last, max(r.used, 0)
}

// pass ends a turn that is used up; false if there is something left of it.
func (r *roundRobin) pass(last *int64) bool {
	if r.used < quantum {
		return false
	}
	r.used -= quantum
	*last++
	r.position = *last
	return true
}

// searchSpare grants to a flow beyond the window. It is called when no flow inside it
// fits on a free device. complete is false where it must be called again.
func (s *Scheduler) searchSpare() (choice Choice, ok, complete bool) {
	open := s.openDevices()
	if !s.rules.window || len(open) == 0 {
		return Choice{}, false, true
	}
	for passed := 0; ; passed++ {
		g := s.spareGroup(open)
		if g == nil {
			return Choice{}, false, true
		}
		switch {
		case s.exhausted():
			return Choice{}, false, false
		case passed >= maxPassed:
			s.retrySoon()
			return Choice{}, false, true
		}
		f := s.spareFlow(g, open)
		d, p, fits := s.fit(f, deviceSet(open).has)
		switch {
		case !fits:
			s.setMisfit(f)
			continue
		case g.standing == throttled && g.pass(&s.root.placed):
			s.rankGroup(g)
			s.asked = 0
			continue
		case f.standing == throttled && f.pass(&g.level.placed):
			s.rank(f)
			s.asked = 0
			continue
		}
		return s.grant(f, d, p, RuleSpare), true, true
	}
}

// openDevices is the set of devices with a free token that may serve flows beyond the
// window: nothing runs there, or no flow inside the window waits for it to drain; and
// every misfit that it could serve was tried since something changed.
func (s *Scheduler) openDevices() []byte {
	s.open = s.setOf(s.open, func(d *device) bool {
		return d.hasFree() && (len(d.flights) == 0 || d.wanted == 0)
	})
	for _, c := range s.active {
		if c.untried > 0 && c.devices.meets(s.open) {
			s.retrySoon()
			for i := range min(len(s.open), len(c.devices)) {
				s.open[i] &^= c.devices[i]
			}
		}
	}
	if !deviceSet(s.open).meets(s.open) {
		return nil
	}
	return s.open
}

// spareGroup is the namespace that comes first on open devices: one inside the window
// by its virtual time, else one beyond it by its turn; nil for none.
func (s *Scheduler) spareGroup(open []byte) *group {
	var first *group
	var least rank
	for _, c := range s.active {
		if len(c.beyond) == 0 || !c.devices.meets(open) {
			continue
		}
		if n := c.beyond.top(); first == nil || n.before(least) {
			first, least = n.of.group, n.rank
		}
	}
	return first
}

// spareFlow is the flow of such a namespace that comes first: one inside the
// namespace's window by the policy's order, else one beyond it by its turn.
func (s *Scheduler) spareFlow(g *group, open []byte) *flow {
	top := func(of func(*share) heap[*flow]) (first *flow) {
		var least rank
		for _, sh := range g.shares {
			if h := of(sh); len(h) > 0 && sh.class.devices.meets(open) && (first == nil || h.top().before(least)) {
				first, least = h.top().of, h.top().rank
			}
		}
		return first
	}
	if g.standing == throttled {
		if f := top(func(sh *share) heap[*flow] { return sh.ranked }); f != nil {
			return f
		}
	}
	return top(func(sh *share) heap[*flow] { return sh.beyond })
}
