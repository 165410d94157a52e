package sched

// The policy's order has two levels, too, so that a throttled namespace leaves and
// returns with all its flows at once: its flows are ranked among themselves, and
// the namespaces by the first of each.

// rank brings a flow's position in the policy's order up to date.
func (s *Scheduler) rank(f *flow) {
	if f.standing != eligible {
		s.unrank(f)
		return
	}
	s.unsetMisfit(f)
	class, key := s.rules.key(s, f)
	f.group.ranked.put(&f.byRank, rank{class, key, f.head().seq})
	s.rankGroup(f.group)
}

// unrank takes a flow out of the order, and out of the list of misfits.
func (s *Scheduler) unrank(f *flow) {
	f.group.ranked.remove(&f.byRank)
	s.rankGroup(f.group)
	s.unsetMisfit(f)
}

// rankGroup brings a group's position up to date: that of its first flow, or where
// the policy goes by virtual time, that of its own.
func (s *Scheduler) rankGroup(g *group) {
	switch {
	case g.standing != eligible || len(g.ranked) == 0:
		s.ranked.remove(&g.byRank)
	case s.rules.nested:
		s.ranked.put(&g.byRank, rank{key: g.vt, tie: g.serial})
	default:
		s.ranked.put(&g.byRank, g.ranked.top().rank)
	}
}

// rankAll follows the rare event that changes every rank.
func (s *Scheduler) rankAll() {
	for _, f := range s.known() {
		if f.standing == eligible {
			s.rank(f)
		}
	}
}
