package sched

// A window bounds how far two flows get apart, not how long one of many waits:
// with N others inside it a call may see N times T go by first, and whoever asks
// for little has the shortest queue, perhaps no container, and is last in any
// order that looks for locality or for short work. Yet least virtual time first
// would give that locality up.
//
// So a head has a limit: once it has waited Slowdown times what it takes, setup
// included, and its flow is among those served least and has nothing in flight,
// it goes before all others. Who asks for less than its share comes back at
// global virtual time and is among those at once; who asks for more is not, and
// only the window counts for it. Every choice stays inside the window, and so
// the bound on the gap stands.

// takes is what the next item of a flow is expected to take, setup included.
func (s *Scheduler) takes(f *flow) int64 { return f.setup + s.expected(f) }

// isOverdue says that the head of an eligible flow waited beyond its limit.
func (s *Scheduler) isOverdue(f *flow, now int64) bool {
	if f.passed || f.inFlight > 0 {
		return false
	}
	waited := now - f.when
	return waited >= int64(s.cfg.Patience) && float64(waited) >= s.cfg.Slowdown*float64(s.takes(f))
}

// overdue finds the flow of least virtual time whose head is overdue, among the
// few served least of the namespaces served least.
func (s *Scheduler) overdue(now int64) (*flow, bool) {
	s.lagging = nil
	if s.cfg.Slowdown == 0 || s.settled {
		return nil, false
	}
	for _, g := range s.root.eligible.least() {
		for _, e := range s.groups[g.slot()].level.eligible.least() {
			if f := s.flows.at(e.slot()); s.isOverdue(f, now) {
				s.lagging = f
				return f, true
			}
		}
	}
	s.settled = true
	return nil, false
}

// byLag names the rule that chose a flow: the order, or that it was overdue.
func (s *Scheduler) byLag(f *flow) Rule {
	if s.lagging == f {
		return RuleOverdue
	}
	return RuleOrder
}
