package sched

// The policy's order has two levels, too, so that a throttled namespace leaves and
// returns with all its flows at once: its flows are ranked among themselves, and
// the namespaces by the first of each; all of it for each reach by itself.

// rank brings a flow's position in the policy's order up to date, or beyond the window
// that by its turn.
func (s *Scheduler) rank(f *flow) {
	if f.share == nil {
		return
	}
	s.unsetMisfit(f)
	if f.standing == throttled {
		f.list(&f.share.beyond, rank{key: f.position})
	} else {
		class, key := s.rules.key(s, f)
		f.list(&f.share.ranked, rank{class, key, f.head().seq})
	}
	s.rankShare(f.share)
}

// list puts a flow into one of its share's heaps.
func (f *flow) list(in *heap[*flow], r rank) {
	if f.listed != in && f.listed != nil {
		f.listed.remove(&f.byRank)
	}
	f.listed = in
	in.put(&f.byRank, r)
}

// unrank takes a flow out of the order, and out of the list of misfits.
func (s *Scheduler) unrank(f *flow) {
	if f.listed != nil {
		f.listed.remove(&f.byRank)
		f.listed = nil
	}
	s.rankShare(f.share)
	s.unsetMisfit(f)
}

// rankShare brings a share's position up to date: that of its first flow, or where the
// policy goes by virtual time, that of its namespace.
func (s *Scheduler) rankShare(sh *share) {
	g, c := sh.group, sh.class
	switch {
	case g.standing != eligible || len(sh.ranked) == 0:
		c.ranked.remove(&sh.byRank)
	case s.rules.nested:
		c.ranked.put(&sh.byRank, rank{key: g.vt, tie: g.serial})
	default:
		c.ranked.put(&sh.byRank, sh.ranked.top().rank)
	}
	switch {
	case g.standing == eligible && len(sh.beyond) > 0:
		c.beyond.put(&sh.bySpare, rank{0, g.vt, g.serial})
	case g.standing == throttled && len(sh.beyond)+len(sh.ranked) > 0:
		c.beyond.put(&sh.bySpare, rank{1, g.position, g.serial})
	default:
		c.beyond.remove(&sh.bySpare)
	}
}

func (s *Scheduler) rankGroup(g *group) {
	for _, sh := range g.shares {
		s.rankShare(sh)
	}
}

// isBefore reports whether the first flow of a share comes before that of another.
func (sh *share) isBefore(other *share) bool {
	if sh.byRank.rank != other.byRank.rank {
		return sh.byRank.before(other.byRank.rank)
	}
	return sh.ranked.top().before(other.ranked.top().rank) // of one namespace
}

// rankAll follows the rare event that changes every rank.
func (s *Scheduler) rankAll() {
	for _, f := range s.known() {
		s.rank(f)
	}
}
