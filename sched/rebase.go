package sched

// rebase moves the virtual times of a level down together when they come near
// overflow, which takes days at the smallest weight. Differences stay.
func (s *Scheduler) rebase(root *level, g *group) {
	if root.gvt > s.rebaseAt {
		by := root.gvt
		root.lower(by)
		for _, g := range s.groups {
			if g != nil {
				g.vt = s.lowered(g.vt, by)
				s.order.syncGroup(g)
			}
		}
	}
	if g.level.gvt > s.rebaseAt {
		by := g.level.gvt
		g.level.lower(by)
		for f := range s.flows.all() {
			if f.group == g {
				f.vt = s.lowered(f.vt, by)
				s.reorder(f)
			}
		}
	}
}

// lowered lets the virtual time of one long idle stay behind, but not for ever:
// that far behind only says that it will be lifted.
func (s *Scheduler) lowered(vt, by int64) int64 { return max(vt-by, -s.rebaseAt) }

// lower keeps the heaps in order: all keys move by the same.
func (l *level) lower(by int64) {
	l.gvt -= by
	l.floor -= by
	l.eligible.lower(by)
	l.throttled.lower(by)
}

func (h *heap) lower(by int64) {
	for i := range h.e {
		h.e[i].k1 -= by
	}
	for i := range h.few[:h.known] {
		h.few[i].k1 -= by
	}
}
