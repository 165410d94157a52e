package sched

// A window bounds how far two flows get apart, not how long one of many waits: with N
// others inside it an invocation may wait for N times T. A flow with few invocations
// has the shortest queue, perhaps no container, and is last in any order that prefers
// locality or short work. Yet least virtual time first would give that locality up.
//
// So a head has a limit: once it has waited Slowdown times what it takes, setup
// included, and its flow is among those served least and has nothing in flight,
// it runs before all others. A flow that uses less than its share returns at global
// virtual time and is among those at once; one that would use more is not, and only
// the window counts for it. Every choice stays inside the window, and so does the
// bound on the gap.

// maxLeast is how many flows and namespaces of least virtual time may be overdue: one
// with long runs must not hide the others.
const maxLeast = 4

// overduePause is for how many times its set-up an overdue head keeps the next one from
// going first: set-ups of overdue heads get a fifth of the tokens' time. Where all heads
// are overdue, going by turns with a set-up each would make all of them wait longer.
const overduePause = 4

// overdue finds the flow of least virtual time whose head is overdue, among the
// few served least of the namespaces served least; nil for none. Flows that no device
// of the set could serve are left out; with a nil set none is.
func (s *Scheduler) overdue(free []byte) *flow {
	if s.cfg.Slowdown == 0 || s.now < s.overdueAt {
		return nil
	}
	var groups [maxLeast]*node[*group]
	var flows [maxLeast]*node[*flow]
	for _, g := range s.root.eligible.least(groups[:]) {
		for _, f := range g.of.level.eligible.least(flows[:]) {
			if (free == nil || f.of.class.devices.meets(free)) && s.isOverdue(f.of) {
				return f.of
			}
		}
	}
	return nil
}

// isOverdue reports whether the head of an eligible flow waited beyond its limit.
func (s *Scheduler) isOverdue(f *flow) bool {
	if f.misfit != nil || len(f.flights) > 0 {
		return false
	}
	waited := s.now - f.head().arrival
	return waited >= int64(s.cfg.MinWait) && float64(waited) >= s.cfg.Slowdown*float64(s.takes(f))
}
