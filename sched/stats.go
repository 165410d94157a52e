package sched

import "time"

// FlowStats is a copy of one flow's figures.
type FlowStats struct {
	Flow     FlowID
	State    State
	Weight   float64
	Queued   int
	InFlight int
	VT       time.Duration // virtual time, on its namespace's scale
	Lead     time.Duration // VT less global virtual time
	Served   uint64        // invocations done
}

// State is a flow's state now.
func (s *Scheduler) State(id FlowID) State {
	f := s.flows[id]
	if f == nil {
		return Inactive
	}
	if f.standing != out && f.group.standing == throttled {
		return Throttled
	}
	return f.state()
}

// Flow copies one flow's figures; false if it is not known.
func (s *Scheduler) Flow(id FlowID) (FlowStats, bool) {
	f := s.flows[id]
	if f == nil {
		return FlowStats{}, false
	}
	st := FlowStats{
		Flow: f.id, State: s.State(f.id), Weight: f.weight, Queued: f.queue.Len(), InFlight: len(f.flights),
		VT: time.Duration(f.vt), Lead: time.Duration(f.lead(f.group.level.gvt)), Served: f.served,
	}
	if f.queue.Len() > 0 {
		st.VT = time.Duration(max(f.vt, f.group.level.gvt))
		st.Lead = max(st.Lead, 0)
	}
	return st, true
}

// Len is how many invocations are queued and in flight.
func (s *Scheduler) Len() (queued, inFlight int) { return s.queued, s.inFlight }

// setDirty has Changes compare a flow's state with what was reported.
func (s *Scheduler) setDirty(f *flow) {
	if !f.dirty && f.state() != f.reported {
		f.dirty = true
		s.changed = append(s.changed, f)
	}
}

func (s *Scheduler) setGroupDirty(g *group) {
	if !g.dirty && g.state() != g.reported {
		g.dirty = true
		s.changedGroups = append(s.changedGroups, g)
	}
}

// Changes lists what changed state since the last call. The list grows until it is
// read.
func (s *Scheduler) Changes() []Change {
	changes := s.gone
	s.gone = nil
	for _, g := range s.changedGroups {
		g.dirty = false
		if to := g.state(); to != g.reported {
			changes = append(changes, Change{Flow: FlowID{Namespace: g.name}, From: g.reported, To: to})
			g.reported = to
		}
	}
	s.changedGroups = s.changedGroups[:0]
	for _, f := range s.changed {
		f.dirty = false
		if to := f.state(); to != f.reported {
			changes = append(changes, Change{Flow: f.id, From: f.reported, To: to})
			f.reported = to
		}
	}
	s.changed = s.changed[:0]
	return changes
}
