package sched

import (
	"cmp"
	"slices"
	"time"
)

// A flow that fits on no free device holds global virtual time: what runs
// beside it is throttled at T, the device it waits for drains, and it fits. But
// a device that idles although nothing inside the window fits there would idle
// for nothing. There the throttled flow of least virtual time runs, and global
// virtual time is raised until that flow leads by T: what fits nowhere loses so
// much of its claim as it could not have used, and keeps T of it.

// openFor is how long a device stays open once it was seen to idle. Then it must
// drain again: what could not fit beside others may fit alone by then.
const openFor = int64(10 * time.Second)

// maxReach is how many namespaces, and how many flows of each, one call looks
// at.
const maxReach = 16

// isOpen says that nothing inside the window can use a device with free tokens.
func (s *Scheduler) isOpen(d *device) bool { return d.items.n == 0 || s.now < d.openUntil }

// reach grants to a flow beyond the window. It is called when all that may run
// was asked and fits on no free device.
func (s *Scheduler) reach() (Choice, bool) {
	if !s.rules.window() || s.holdUntil != never || !slices.ContainsFunc(s.devices, s.opens) {
		return Choice{}, false
	}
	n := s.eligible.len()
	candidates := s.holders()
	for _, g := range candidates {
		if f, d, facts, ok := s.reachIn(g); ok {
			s.raise(g, f.vt)
			f.beyond = true
			if d.items.n == 0 {
				d.openUntil = s.now + openFor
			}
			return s.grant(f, d, facts), true
		}
	}
	s.probed += min(n, maxReach)
	switch {
	case s.probed < n:
		s.askAt = s.now + pace
	case len(candidates) > 0: // the first of it fits nowhere either
		g := candidates[0]
		s.raise(g, g.level.throttled.top().k1)
		s.askAt = s.now
	case s.root.throttled.len() > 0:
		s.raiseRoot()
		s.askAt = s.now
	}
	return Choice{}, false
}

func (s *Scheduler) opens(d *device) bool { return d.free() > 0 && s.isOpen(d) }

// holders lists namespaces that may run and hold flows of theirs back, least
// virtual time first; of very many the next ones with each call.
func (s *Scheduler) holders() []*group {
	list := s.reached[:0]
	n := s.eligible.len()
	start := 0
	if n > maxReach {
		start = s.probed
	}
	for i := range min(n, maxReach) {
		g := s.groups[s.eligible.e[(start+i)%n].slot()]
		if g.level.throttled.len() > 0 {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.vt, b.vt), cmp.Compare(a.serial, b.serial))
	})
	s.reached = list
	return list
}

// reachIn finds the throttled flow of least virtual time, of the first few, that
// fits on an open device.
func (s *Scheduler) reachIn(g *group) (f *flow, d *device, facts Facts, ok bool) {
	h := &g.level.throttled
	var first [maxReach]entry
	n := copy(first[:], h.e)
	list := first[:n]
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.k1, b.k1), cmp.Compare(a.k2(), b.k2()))
	})
	for _, e := range list {
		f = s.flows.at(e.slot())
		if d, facts, ok = s.fit(f, true); ok {
			return f, d, facts, true
		}
	}
	return nil, nil, Facts{}, false
}

// raise moves the global virtual time of a namespace up until a flow at vt leads
// by no more than T.
func (s *Scheduler) raise(g *group, vt int64) {
	g.level.raise(vt - s.overrun)
	s.releaseFlows(g)
}

func (s *Scheduler) raiseRoot() {
	s.root.raise(s.root.throttled.top().k1 - s.overrun)
	s.releaseGroups()
}

func (l *level) raise(to int64) {
	l.gvt = max(l.gvt, to)
	l.floor = max(l.floor, l.gvt)
}
