package sched

import (
	"cmp"
	"slices"
	"time"
)

// A flow that fits on no free device holds global virtual time back: what runs beside
// it is throttled at T, the device it waits for drains, and it fits. But a device
// must not idle when nothing inside the window fits there, or what fits waits for a
// container of its own elsewhere. There the throttled flow
// of least virtual time runs, and global virtual time is raised until that flow leads
// by T: what fits nowhere loses as much of its claim as it could not have used, and
// keeps T of it.

// openFor is how long a device stays open to flows beyond the window once it idled.
// Then it must drain again: what could not fit beside others may fit alone by then.
const openFor = int64(10 * time.Second)

// maxSpare is how many namespaces, and how many flows of each, one call tries.
const maxSpare = 16

// spare grants to a flow beyond the window. It is called when no flow that may run
// fits on a free device.
func (s *Scheduler) spare() (Choice, bool) {
	open := func(d *device) bool { return d.free() > 0 && (len(d.flights) == 0 || s.now < d.openUntil) }
	if !s.rules.window || !slices.ContainsFunc(s.devices, open) {
		return Choice{}, false
	}
	groups := s.spareGroups()
	for _, g := range groups {
		var first [maxSpare]*node[*flow]
		for _, n := range g.level.throttled.least(first[:]) {
			d, p, ok := s.fit(n.of, open)
			if !ok {
				continue
			}
			s.raise(g, n.of.vt)
			if len(d.flights) == 0 {
				d.openUntil = s.now + openFor
			}
			return s.grant(n.of, d, p, RuleSpare), true
		}
	}
	n := len(s.root.eligible)
	s.probed += min(n, maxSpare)
	switch {
	case s.probed < n:
		s.retryAt = s.now + pause
	case len(groups) > 0: // its first throttled flow fits nowhere either
		s.raise(groups[0], groups[0].level.throttled.top().key)
		s.retryAt = s.now
	case len(s.root.throttled) > 0:
		s.root.raise(s.root.throttled.top().key - s.overrun)
		s.releaseGroups()
		s.retryAt = s.now
	}
	return Choice{}, false
}

// spareGroups lists namespaces that may run and have throttled flows, least virtual
// time first; of very many the next ones with each call.
func (s *Scheduler) spareGroups() (groups []*group) {
	n, start := len(s.root.eligible), 0
	if n > maxSpare {
		start = s.probed
	}
	for i := range min(n, maxSpare) {
		if g := s.root.eligible[(start+i)%n].of; len(g.level.throttled) > 0 {
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.vt, b.vt), cmp.Compare(a.serial, b.serial))
	})
	return groups
}

// raise moves the global virtual time of a namespace up until a flow at vt leads
// by no more than T.
func (s *Scheduler) raise(g *group, vt int64) {
	g.level.raise(vt - s.overrun)
	s.releaseFlows(g)
}
