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
	// PassedOver is the device time, over the weight, that others used while this flow or
	// its namespace could not, and that it is not owed. PassedBy used it last.
	PassedOver time.Duration
	PassedBy   FlowID
}

// State is a flow's state now.
func (s *Scheduler) State(id FlowID) State {
	if f := s.flows[id]; f != nil {
		s.refresh()
		return s.state(f)
	}
	return Inactive
}

// Competes reports whether a flow has work queued, does not pause, and could be served.
func (s *Scheduler) Competes(id FlowID) bool {
	f := s.flows[id]
	return f != nil && f.competes
}

// Leads reports whether a flow leads another by more than T, or its namespace the other's.
func (s *Scheduler) Leads(id, other FlowID) bool {
	f, o := s.flows[id], s.flows[other]
	return f != nil && o != nil && s.leads(f, o)
}

func (s *Scheduler) state(f *flow) State {
	switch {
	case len(f.queue) > 0 && (!f.competes || !s.inside(f)):
		return Throttled
	case !f.expired:
		return Active
	}
	return Inactive
}

// Flow copies one flow's figures; false if it is not known.
func (s *Scheduler) Flow(id FlowID) (FlowStats, bool) {
	f := s.flows[id]
	if f == nil {
		return FlowStats{}, false
	}
	st := FlowStats{
		Flow: f.id, State: s.State(f.id), Weight: f.weight, Queued: len(f.queue), InFlight: len(f.flights),
		VT: time.Duration(f.vt), Lead: time.Duration(f.group.level.lead(&f.virtualTime)), Served: f.served,
		PassedOver: time.Duration(f.passedOver + f.group.passedOver - f.groupPassed), PassedBy: f.passedBy,
	}
	if st.PassedBy == (FlowID{}) && st.PassedOver > 0 {
		st.PassedBy = f.group.passedBy
	}
	return st, true
}

// Len is how many invocations are queued and in flight.
func (s *Scheduler) Len() (queued, inFlight int) { return s.queued, len(s.invocations) - s.queued }

// setDirty has Changes compare a flow's state with the reported one.
func (s *Scheduler) setDirty(f *flow) {
	if !f.dirty && s.state(f) != f.reported {
		f.dirty = true
		s.changed = append(s.changed, f)
	}
}

// Changes lists the flows whose state changed since the last call. The list grows until it
// is read.
func (s *Scheduler) Changes() []Change {
	s.refresh()
	changes := s.gone
	s.gone = nil
	for _, f := range s.changed {
		f.dirty = false
		if to := s.state(f); to != f.reported {
			changes = append(changes, Change{Flow: f.id, From: f.reported, To: to})
			f.reported = to
		}
	}
	s.changed = s.changed[:0]
	return changes
}
