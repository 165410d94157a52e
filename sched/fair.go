package sched

// Fair queueing on two levels: flows compete inside their group by their
// virtual time, groups compete by theirs. Both levels keep the same rule, so
// both keep its bound.

// enter makes a flow backlogged. A flow that comes back is lifted to global
// virtual time: it may not make up for the time it was away. One that ran
// ahead keeps its debt.
func (s *Scheduler) enter(f *flow) {
	g := f.group
	s.backlogged++
	if g.level.empty() {
		g.lift(s.root.gvt)
		s.setGroup(g, s.place(&s.root, g.slot, g.slot, g.vt, g.serial))
	}
	f.lift(g.level.gvt)
	f.standing = s.place(&g.level, f.place, f.slot, f.vt, f.serial)
}

// place puts a member into the heap of a level where its virtual time belongs.
func (s *Scheduler) place(l *level, place, slot int32, vt, serial int64) standing {
	if vt-l.gvt > s.overrun {
		l.throttled.push(slot, vt, serial)
		return throttled
	}
	l.eligible.put(place, entryOf(vt, serial, slot))
	return eligible
}

// leave takes a flow without queued items out of the backlog, and its group
// when it was the last.
func (s *Scheduler) leave(f *flow) {
	s.unorder(f)
	s.backlogged--
	g := f.group
	g.level.of(f.standing).drop(f.place, f.slot)
	f.standing = out
	f.leave()
	if g.level.empty() {
		s.root.of(g.standing).drop(g.slot, g.slot)
		s.setGroup(g, out)
		g.leave()
	}
}

func (l *level) of(st standing) ranking {
	if st == throttled {
		return &l.throttled
	}
	return l.eligible
}

// charge adds to the virtual time of a flow and of its group, both backlogged,
// each over its weight; settle must follow.
func (s *Scheduler) charge(f *flow, own, above int64) {
	g := f.group
	f.lift(g.level.gvt)
	f.charge(own)
	g.lift(s.root.gvt)
	g.charge(above)
	s.moved(f)
}

// moved tells the heaps that the virtual time of f and its group changed.
func (s *Scheduler) moved(f *flow) {
	g := f.group
	if f.standing != out {
		g.level.of(f.standing).put(f.place, entryOf(f.vt, f.serial, f.slot))
	}
	if g.standing != out {
		s.root.of(g.standing).put(g.slot, entryOf(g.vt, g.serial, g.slot))
	}
}

// settle restores both levels and the order after f changed: global virtual
// time follows the least backlogged one, those that fell within T of it become
// eligible, and f and its group are throttled or let go by the same rule.
func (s *Scheduler) settle(f *flow) {
	g := f.group
	s.root.advance()
	s.releaseGroups()
	if st, moved := s.judge(&s.root, g.slot, g.slot, g.vt, g.serial, g.standing); moved {
		s.setGroup(g, st)
	}
	g.level.advance()
	s.releaseFlows(g)
	if st, moved := s.judge(&g.level, f.place, f.slot, f.vt, f.serial, f.standing); moved {
		f.standing = st
	}
	s.reorder(f)
	if s.order.nested {
		s.order.syncGroup(g)
	}
	s.mark(f)
	s.rebase(&s.root, g)
}

// judge throttles a member that ran more than T ahead, or lets it go.
func (s *Scheduler) judge(l *level, place, slot int32, vt, serial int64, st standing) (standing, bool) {
	want := eligible
	if vt-l.gvt > s.overrun {
		want = throttled
	}
	if st == out || st == want {
		return st, false
	}
	l.of(st).drop(place, slot)
	l.of(want).put(place, entryOf(vt, serial, slot))
	return want, true
}

// releaseFlows lets go the throttled flows that global virtual time reached.
func (s *Scheduler) releaseFlows(g *group) {
	l := &g.level
	for l.throttled.len() > 0 && l.throttled.top().k1-l.gvt <= s.overrun {
		e := l.throttled.top()
		l.throttled.remove(e.slot())
		f := s.flows.at(e.slot())
		l.eligible.put(f.place, e)
		f.standing = eligible
		s.reorder(f)
		s.mark(f)
	}
}

func (s *Scheduler) releaseGroups() {
	l := &s.root
	for l.throttled.len() > 0 && l.throttled.top().k1-l.gvt <= s.overrun {
		e := l.throttled.top()
		l.throttled.remove(e.slot())
		l.eligible.put(e.slot(), e)
		s.setGroup(s.groups[e.slot()], eligible)
	}
}

func (s *Scheduler) setGroup(g *group, st standing) {
	g.standing = st
	s.order.syncGroup(g)
	s.markGroup(g)
}

// reorder brings a flow's place in the policy's order up to date.
func (s *Scheduler) reorder(f *flow) {
	if f.standing != eligible {
		s.unorder(f)
		return
	}
	s.unpass(f)
	class, k1 := s.rules.key(s, f)
	s.order.put(f, class, k1, f.headSeq)
}

// unorder takes a flow out of those to be asked, and of those asked in vain.
func (s *Scheduler) unorder(f *flow) {
	s.order.remove(f)
	s.unpass(f)
}

// reorderAll is for the rare event that changes every key.
func (s *Scheduler) reorderAll() {
	for f := range s.flows.all() {
		if f.standing == eligible {
			s.reorder(f)
		}
	}
}
