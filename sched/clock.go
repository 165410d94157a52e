package sched

import "math"

// Fair queueing has two levels: the flows of a namespace compete by their virtual time,
// and namespaces compete by theirs. Both levels follow the same rules.
//
// A flow competes while it has work queued, does not pause after failures, and some device
// could serve it now or once the current runs there have ended. A namespace competes while
// one of its flows does.

// virtualTime is the service charged to a flow or to a namespace so far, each charge over
// its weight. Nothing that is charged or given back is cut off.
type virtualTime struct {
	vt       int64
	competes bool
	// aside means that it stopped competing with work queued. It keeps the lead that it
	// had: when it competes again, its virtual time has moved with the clock since asideAt.
	aside   bool
	asideAt int64
	// passedOver is how far it was moved along because it could not use the starts of others
	// (moveAlong), and passedBy the flow that started last.
	passedOver int64
	passedBy   FlowID
}

// level is the virtual times of siblings: the flows of a namespace, or all namespaces.
type level struct {
	least     int64 // of the members that compete, as of the last survey
	competing int
	clock     int64 // global virtual time: the largest value that least has had
}

func (l *level) reset() { l.least, l.competing = math.MaxInt64, 0 }

// add counts a sibling that competes.
func (l *level) add(v *virtualTime) {
	l.least = min(l.least, v.vt)
	l.competing++
}

// advance moves the clock up to the least virtual time. It never goes back.
func (l *level) advance() {
	if l.competing > 0 {
		l.clock = max(l.clock, l.least)
	}
}

// lead is by how much a sibling is ahead of the least served one.
func (l *level) lead(v *virtualTime) int64 {
	switch {
	case v.aside:
		return v.vt - v.asideAt
	case l.competing == 0:
		return v.vt - l.clock
	}
	return v.vt - l.least
}

// enter lifts a sibling that comes back with work: it may not make up for the time that it
// was away. A sibling that ran ahead keeps its debt.
func (v *virtualTime) enter(l *level) {
	v.stepBack(l)
	v.vt = max(v.vt, l.clock)
	v.competes = true
}

// enter begins to compete for a flow with work queued. It is not behind those of equal
// needs, which may be far ahead of flows that need more.
//
// With Config.Shortest it begins in the middle of the window. Otherwise new functions that
// are called a few times each would hold global virtual time where it is, and stop those
// that have led by T for as long as new ones come. The bound allows for a lead of T.
func (s *Scheduler) enter(f *flow) {
	f.kind = f.work.Outlook().kind(f)
	f.virtualTime.enter(&f.group.level)
	equals := int64(math.MaxInt64)
	for _, i := range s.backlog {
		if i != f && i.competes && i.group == f.group && i.kind == f.kind {
			equals = min(equals, i.vt)
		}
	}
	if equals < math.MaxInt64 {
		f.vt = max(f.vt, equals)
	}
	if s.cfg.Shortest && f.group.level.competing > 0 {
		f.vt = max(f.vt, f.group.level.least+s.overrun/2)
	}
}

// stepAside keeps the lead of a sibling that no longer competes.
func (v *virtualTime) stepAside(l *level) {
	v.competes = false
	if !v.aside {
		v.aside, v.asideAt = true, l.clock
	}
}

func (v *virtualTime) stepBack(l *level) {
	if v.aside {
		v.vt += l.clock - v.asideAt
		v.aside = false
	}
}

// survey brings the needs of each flow with work queued up to date, whether it competes, and
// the clocks.
func (s *Scheduler) survey() {
	for _, f := range s.backlog {
		o := f.work.Outlook()
		f.setup, f.kind, f.plain, f.short = clamped(o.Setup), o.kind(f), o.Plain, o.ShortOfHost
		switch {
		case f.backoff.pausing():
			f.competes = false // it is lifted when it returns
		case !o.Servable || len(s.devices) == 0:
			f.stepAside(&f.group.level)
		default:
			f.stepBack(&f.group.level)
			f.competes = true
		}
	}
	s.charged = true
	s.refresh()
	for _, f := range s.backlog {
		f.ahead = f.vt-f.group.level.least > s.overrun
		f.inside = f.competes && !f.ahead && s.groupInside(f.group)
		if f.inside != (f.reported == Active) {
			s.setDirty(f)
		}
	}
}

func (s *Scheduler) surveyGroups() {
	s.root.reset()
	for _, g := range s.spaces {
		if g.level.competing == 0 {
			g.stepAside(&s.root)
			continue
		}
		g.stepBack(&s.root)
		g.competes = true
		g.level.advance()
		s.root.add(&g.virtualTime)
	}
	s.root.advance()
	s.rebase()
}

// charge adds to the virtual times of a flow and of its namespace, or takes back with
// negative amounts.
func (s *Scheduler) charge(f *flow, own, above int64) {
	f.vt += own
	f.group.vt += above
	s.charged = true
}

// refresh brings the clocks up to date where something was charged since the last survey.
func (s *Scheduler) refresh() {
	if !s.charged {
		return
	}
	s.charged = false
	for _, g := range s.spaces {
		g.level.reset()
	}
	for _, f := range s.backlog {
		if f.competes {
			f.group.level.add(&f.virtualTime)
		}
	}
	s.surveyGroups()
}

// inside reports whether a flow that competes, and its namespace, lead by at most T.
func (s *Scheduler) inside(f *flow) bool {
	return f.vt-f.group.level.least <= s.overrun && s.groupInside(f.group)
}

func (s *Scheduler) groupInside(g *group) bool { return g.vt-s.root.least <= s.overrun }

// leads reports whether a flow leads another by more than T, or its namespace the other's.
func (s *Scheduler) leads(f, other *flow) bool {
	if f.group == other.group {
		return f.vt-other.vt > s.overrun
	}
	return f.group.vt-other.group.vt > s.overrun
}

// rebaseAt keeps virtual time far from overflow, which takes days at the smallest weight:
// past it every level is moved down to 0, which changes no difference.
const rebaseAt = endless

func (s *Scheduler) rebase() {
	high := s.root.clock
	for _, g := range s.groups {
		high = max(high, g.level.clock)
	}
	if high <= s.rebaseAt {
		return
	}
	for _, f := range s.flows {
		f.lower(f.group.level.clock)
	}
	for _, g := range s.groups {
		g.lower(s.root.clock)
		g.level.lower()
	}
	s.root.lower()
}

// lower moves a sibling down. A sibling that has been away for long stays far enough behind
// to be lifted when it returns, and no more.
func (v *virtualTime) lower(by int64) {
	v.vt -= by
	v.asideAt -= by
	if !v.competes && !v.aside {
		v.vt = max(v.vt, -endless)
	}
}

func (l *level) lower() {
	l.least, l.clock = l.least-l.clock, 0
}
