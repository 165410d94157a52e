package sched

// enter makes a flow backlogged.
func (s *Scheduler) enter(f *flow) {
	g := f.group
	s.backlogged++
	if g.level.len() == 0 {
		g.member.enter(&s.root)
		s.root.position(&g.member, s.overrun)
	}
	f.member.enter(&g.level)
	g.level.position(&f.member, s.overrun)
	s.join(f)
	s.regroup(g)
}

// leave takes a flow without queued invocations out of the backlog, and its group
// when it was the last.
func (s *Scheduler) leave(f *flow) {
	s.part(f)
	s.backlogged--
	g := f.group
	g.level.remove(&f.member)
	f.member.leave(g.level.gvt)
	if g.level.len() == 0 {
		s.root.remove(&g.member)
		s.regroup(g)
		g.member.leave(s.root.gvt)
	}
}

// charge adds to the virtual time of a flow and of its group, each over its weight,
// or takes back with negative amounts; settle must follow.
func (s *Scheduler) charge(f *flow, own, above int64) {
	g := f.group
	f.member.charge(own, g.level.gvt, f.standing != out)
	g.member.charge(above, s.root.gvt, g.standing != out)
	if f.standing != out {
		g.level.moved(&f.member)
	}
	if g.standing != out {
		s.root.moved(&g.member)
	}
}

// chargeRun charges for a run: virtual time where the flow or the group was inside the
// window when the run was granted, and its turn where it was beyond it.
func (s *Scheduler) chargeRun(f *flow, r *run, own, above int64) {
	if r.spare {
		f.used += own
		own = 0
	}
	if r.spareAbove {
		f.group.used += above
		above = 0
	}
	s.charge(f, own, above)
}

// settle restores both levels and the order after f changed: global virtual
// time follows the least backlogged one, those that fell within T of it become
// eligible, and f and its group are throttled or released by the same rule.
func (s *Scheduler) settle(f *flow) {
	g := f.group
	s.root.advance()
	s.releaseGroups()
	if g.standing != out && s.root.position(&g.member, s.overrun) {
		s.regroup(g)
	}
	g.level.advance()
	s.releaseFlows(g)
	if f.standing != out {
		g.level.position(&f.member, s.overrun)
	}
	s.rank(f)
	s.rankGroup(g)
	s.setDirty(f)
	s.rebase(g)
}

// releaseFlows makes the throttled flows eligible that global virtual time reached.
func (s *Scheduler) releaseFlows(g *group) {
	for f, ok := g.level.released(s.overrun); ok; f, ok = g.level.released(s.overrun) {
		g.level.position(&f.member, s.overrun)
		s.rank(f)
		s.setDirty(f)
	}
}

func (s *Scheduler) releaseGroups() {
	for g, ok := s.root.released(s.overrun); ok; g, ok = s.root.released(s.overrun) {
		s.root.position(&g.member, s.overrun)
		s.regroup(g)
	}
}

// regroup follows a change of a group's standing.
func (s *Scheduler) regroup(g *group) {
	s.rankGroup(g)
	s.setGroupDirty(g)
}

// rebaseAt keeps virtual time far from overflow, which takes days at the smallest
// weight: past it every level is moved down to 0, which changes no difference.
const rebaseAt = endless

func (s *Scheduler) rebase(g *group) {
	if max(s.root.gvt, g.level.gvt) <= s.rebaseAt {
		return
	}
	for _, f := range s.flows {
		f.lower(f.group.level.gvt)
	}
	for _, g := range s.groups {
		g.lower(s.root.gvt)
		g.level.lower()
	}
	s.root.lower()
	s.rankAll()
}
