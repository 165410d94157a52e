package sched

// mark notes that a flow's state may differ from what was reported.
func (s *Scheduler) mark(f *flow) {
	if s.tracking && !f.dirty && f.state() != f.reported {
		f.dirty = true
		s.changed = append(s.changed, f)
	}
}

func (s *Scheduler) markGroup(g *group) {
	if s.tracking && !g.dirty && g.state() != g.reported {
		g.dirty = true
		s.changedNS = append(s.changedNS, g)
	}
}

// state of a group: it is throttled as a whole or not at all.
func (g *group) state() State {
	if g.standing == throttled {
		return Throttled
	}
	return Active
}

// Changes appends to buf what changed state since the last call. The record
// starts with the first call, which reports all that is not inactive; an owner
// that began must go on, for the record grows until it is read.
func (s *Scheduler) Changes(buf []Change) []Change {
	if !s.tracking {
		s.tracking = true
		s.markAll()
	}
	buf = append(buf, s.gone...)
	s.gone = s.gone[:0]
	for _, g := range s.changedNS {
		g.dirty = false
		if to := g.state(); to != g.reported {
			buf = append(buf, Change{FlowID{Namespace: g.name}, g.reported, to})
			g.reported = to
		}
	}
	s.changedNS = s.changedNS[:0]
	for _, f := range s.changed {
		if !f.dirty {
			continue
		}
		f.dirty = false
		if to := f.state(); to != f.reported {
			buf = append(buf, Change{f.id, f.reported, to})
			f.reported = to
		}
	}
	s.changed = s.changed[:0]
	return buf
}

func (s *Scheduler) markAll() {
	for _, g := range s.groups {
		if g != nil {
			s.markGroup(g)
		}
	}
	for f := range s.flows.all() {
		s.mark(f)
	}
}
